// The polytope theorem live in the browser: rescaled tokens (equation A2) with V = I in the plane.
// No library and no network; the same numbers as attn_clusters gives, which a test checks.
"use strict";

(() => {
  const STEP = 0.005;        // of the Runge-Kutta method, in t
  const LAST = 6;            // largest t
  const KEEP = 10;           // steps from one stored frame to the next
  const HALF = 5;            // tokens start in [-5, 5]^2

  // A small generator with a seed, so that a link to a setting shows everyone the same tokens.
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  function randomTokens(n, seed) {
    const next = generator(seed);
    return Float64Array.from({length: 2 * n}, () => HALF * (2 * next() - 1));
  }

  // Q^T K = R(angle) diag(1, ratio) R(angle)^T: symmetric and positive definite.
  function scoreMatrix(ratio, degrees) {
    const c = Math.cos(degrees * Math.PI / 180), s = Math.sin(degrees * Math.PI / 180);
    return [c * c + ratio * s * s, (1 - ratio) * c * s, s * s + ratio * c * c];
  }

  // dz_i/dt = sum_j P_ij (z_j - z_i), P_ij = softmax over j of e^{2t} <z_i, B z_j>.
  function change(t, z, B) {
    const n = z.length / 2, result = new Float64Array(2 * n), scale = Math.exp(2 * t);
    const scores = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      const x = scale * (B[0] * z[2 * i] + B[1] * z[2 * i + 1]);
      const y = scale * (B[1] * z[2 * i] + B[2] * z[2 * i + 1]);
      let largest = -Infinity;
      for (let j = 0; j < n; j++) {
        scores[j] = x * z[2 * j] + y * z[2 * j + 1];
        if (scores[j] > largest) largest = scores[j];
      }
      let total = 0, first = 0, second = 0;
      for (let j = 0; j < n; j++) {
        const mass = Math.exp(scores[j] - largest);
        total += mass;
        first += mass * z[2 * j];
        second += mass * z[2 * j + 1];
      }
      result[2 * i] = first / total - z[2 * i];
      result[2 * i + 1] = second / total - z[2 * i + 1];
    }
    return result;
  }

  function moved(z, slope, length) {
    return z.map((value, index) => value + length * slope[index]);
  }

  function rungeKutta(t, z, B) {
    const a = change(t, z, B);
    const b = change(t + STEP / 2, moved(z, a, STEP / 2), B);
    const c = change(t + STEP / 2, moved(z, b, STEP / 2), B);
    const d = change(t + STEP, moved(z, c, STEP), B);
    return z.map((value, k) => value + STEP / 6 * (a[k] + 2 * b[k] + 2 * c[k] + d[k]));
  }

  function trajectory(tokens, B) {
    const frames = [tokens];
    let z = tokens;
    for (let k = 0; k < Math.round(LAST / STEP); k++) {
      z = rungeKutta(k * STEP, z, B);
      if ((k + 1) % KEEP === 0) frames.push(z);
    }
    return frames;
  }

  // Corners of the convex hull, counterclockwise (monotone chain).
  function hull(z) {
    const points = [];
    for (let i = 0; i < z.length; i += 2) points.push([z[i], z[i + 1]]);
    points.sort((p, q) => p[0] - q[0] || p[1] - q[1]);
    const turn = (o, p, q) => (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0]);
    const chain = list => {
      const kept = [];
      for (const point of list) {
        while (kept.length > 1 && turn(kept.at(-2), kept.at(-1), point) <= 0) kept.pop();
        kept.push(point);
      }
      return kept.slice(0, -1);
    };
    return points.length < 3 ? points : [...chain(points), ...chain(points.reverse())];
  }

  function area(corners) {
    return corners.reduce((sum, p, k) => {
      const q = corners[(k + 1) % corners.length];
      return sum + (p[0] * q[1] - q[0] * p[1]) / 2;
    }, 0);
  }

  // How many places are taken: tokens nearer than 0.2 to each other count as one.
  function places(z) {
    const found = [];
    for (let i = 0; i < z.length; i += 2) {
      if (found.every(p => Math.hypot(p[0] - z[i], p[1] - z[i + 1]) > 0.2)) found.push([z[i], z[i + 1]]);
    }
    return found.length;
  }

  function draw(canvas, frames, now) {
    const size = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.height = Math.round(size * ratio);
    const pen = canvas.getContext("2d"), style = getComputedStyle(canvas);
    const unit = canvas.width / (2.2 * HALF);
    const at = (x, y) => [canvas.width / 2 + unit * x, canvas.height / 2 - unit * y];
    const outline = (corners, stroke, fill) => {
      pen.beginPath();
      corners.forEach(p => pen.lineTo(...at(...p)));
      pen.closePath();
      if (fill) { pen.globalAlpha = 0.25; pen.fillStyle = fill; pen.fill(); pen.globalAlpha = 1; }
      pen.strokeStyle = stroke;
      pen.lineWidth = 1.5 * ratio;
      pen.stroke();
    };
    outline(hull(frames[0]), "#999999");
    outline(hull(frames[now]), "#0072B2", "#56B4E9");
    pen.strokeStyle = "#D55E00";
    pen.globalAlpha = 0.5;
    pen.lineWidth = ratio;
    for (let i = 0; i < frames[0].length; i += 2) {
      pen.beginPath();
      for (let k = 0; k <= now; k++) pen.lineTo(...at(frames[k][i], frames[k][i + 1]));
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.fillStyle = style.color;
    for (let i = 0; i < frames[now].length; i += 2) {
      pen.beginPath();
      pen.arc(...at(frames[now][i], frames[now][i + 1]), 3.2 * ratio, 0, 2 * Math.PI);
      pen.fill();
    }
  }

  function start(root) {
    const canvas = root.querySelector("canvas"), said = root.querySelector("[data-said]");
    const input = name => root.querySelector(`input[name=${name}]`);
    const value = name => Number(input(name).value);
    const button = root.querySelector("button");
    let frames = [], playing = 0;

    function show() {
      const now = Math.min(frames.length - 1, Math.round(value("time") / (STEP * KEEP)));
      for (const name of ["n", "seed", "ratio", "angle", "time"])
        root.querySelector(`output[for=explore-${name}]`).value = input(name).value;
      draw(canvas, frames, now);
      const size = area(hull(frames[now])), first = area(hull(frames[0]));
      said.textContent = `At t = ${value("time").toFixed(2)} the tokens take ${places(frames[now])} places; their hull `
        + `has area ${size.toFixed(2)}, ${(100 * size / first).toFixed(1)} % of the first.`;
      canvas.setAttribute("aria-label", `Tokens in the plane and their convex hull. ${said.textContent}`);
    }

    function compute() {
      const B = scoreMatrix(value("ratio"), value("angle"));
      frames = trajectory(randomTokens(value("n"), value("seed")), B);
      root.explored = {B, step: STEP * KEEP, frames};   // for whoever wants to check the numbers
      show();
    }

    function stop() {
      cancelAnimationFrame(playing);
      playing = 0;
      button.textContent = "Play";
    }

    function play() {
      if (playing) return stop();
      button.textContent = "Pause";
      if (value("time") >= LAST) input("time").value = 0;
      let before = performance.now();
      const tick = moment => {
        input("time").value = Math.min(LAST, value("time") + (moment - before) / 1000);
        before = moment;
        show();
        if (value("time") >= LAST) return stop();
        playing = requestAnimationFrame(tick);
      };
      playing = requestAnimationFrame(tick);
    }

    for (const name of ["n", "seed", "ratio", "angle"]) input(name).addEventListener("input", compute);
    input("time").addEventListener("input", () => { if (playing) stop(); show(); });
    button.addEventListener("click", play);
    new ResizeObserver(show).observe(canvas);
    new MutationObserver(show).observe(document.documentElement, {attributeFilter: ["data-theme"]});
    compute();
  }

  document.querySelectorAll(".explore").forEach(start);
})();
