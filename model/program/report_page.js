// SPDX-License-Identifier: Apache-2.0
'use strict';
const report = data();

function exact(value) {
  if (value === null) return '–';
  if (typeof value !== 'number') return String(value);
  const size = Math.abs(value);
  if (Number.isSafeInteger(value)) return String(value);
  if (size >= 1000 && size < 1e6) return value.toFixed(0);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(3);
  return String(Number(value.toPrecision(4)));
}

// The column's name ends in its unit. Bytes are written as they were given: in powers of 1000 if they are round so.
function worded(value, column) {
  if (value === null) return 'never';
  if (column.endsWith('bytes')) {
    if (value >= 1e9 && value % 1e8 === 0) return exact(value / 1e9) + ' GB';
    const power = Math.min(4, Math.floor(Math.log2(Math.max(1, value)) / 10));
    return exact(value / 1024 ** power) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][power];
  }
  if (column.endsWith('_bytes_per_s')) return exact(value / 1e9) + ' GB/s';
  if (column.endsWith('_s')) return value >= 3600 ? exact(value / 3600) + ' h' : exact(value) + ' s';
  return value >= 1e4 ? value.toExponential(1) : exact(value);
}

// In the unit of the column's label, but for times that it would make unreadable.
function timely(cell, label) {
  const isTime = typeof cell === 'number' && cell > 0;
  if (isTime && label.endsWith(', h') && cell < 0.01) return exact(3600 * cell) + ' s';
  if (isTime && label.endsWith(', s') && cell >= 7200) return exact(cell / 3600) + ' h';
  return exact(cell);
}

function sheetTable(parent, sheet) {
  const box = add(parent, 'div', undefined, {class: 'wide'});
  const body = add(box, 'table', undefined, {'data-sheet': sheet.name});
  const head = add(add(body, 'thead'), 'tr');
  const numeric = sheet.columns.map((_, i) => sheet.rows.some(row => typeof row[i] === 'number'));
  sheet.columns.forEach((column, i) => add(head, 'th', column.label, numeric[i] ? {} : {class: 'text'}));
  const rows = add(body, 'tbody');
  for (const row of sheet.rows) {
    const line = add(rows, 'tr');
    row.forEach((cell, i) => {
      const attributes = numeric[i] ? {} : {class: 'text'};
      if (typeof cell === 'number') attributes['data-value'] = JSON.stringify(cell);
      add(line, 'td', timely(cell, sheet.columns[i].label), attributes);
    });
  }
}

const sheetNamed = name => report.sheets.find(sheet => sheet.name === name);
const columnOf = (sheet, name) => sheet.columns.findIndex(column => column.name === name);
const labelOf = (sheet, name) => sheet.columns[columnOf(sheet, name)].label;

// ---- A surface that can be turned ----------------------------------------------------------------------------------

// 1, 2 or 5 times a power of ten, not above `step`.
function roundStep(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return power * [5, 2, 1].find(factor => factor * power <= step * (1 + 1e-9));
}

// A scale from values to -1 .. 1.
function scale(values, logarithmic) {
  const real = values.filter(value => value !== null && (!logarithmic || value > 0));
  const at = value => logarithmic ? Math.log10(value) : value;
  let low = Math.min(...real.map(at)), high = Math.max(...real.map(at));
  if (!(high > low)) { low -= 1; high += 1; }
  const ticks = [];
  const step = logarithmic ? Math.max(1, Math.ceil((high - low) / 5)) : roundStep((high - low) / 4);
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9; ++i) {
    ticks.push(logarithmic ? 10 ** (i * step) : i * step);
  }
  return {of: value => (at(value) - low) / (high - low) * 2 - 1, ticks, at};
}

function gridOf(surface) {
  const sheet = sheetNamed(surface.sheet);
  const [ix, iy, iz] = [surface.x, surface.y, surface.z].map(name => columnOf(sheet, name));
  const xs = [...new Set(sheet.rows.map(row => row[ix]))], ys = [...new Set(sheet.rows.map(row => row[iy]))];
  const zs = new Map(sheet.rows.map(row => [row[ix] + '|' + row[iy], row[iz]]));
  const sx = scale(xs, true), sy = scale(ys, true);
  const sz = scale(sheet.rows.map(row => row[iz]), surface.z_is_logarithmic);
  // Binary sizes get ticks at powers of two that are printed without fractions.
  if (surface.x.endsWith('_bytes')) sx.ticks = xs.filter((_, i) => i % 4 === 0);
  sy.ticks = ys.filter((_, i) => i % 2 === 0);
  const point = (x, y) => {
    const z = zs.get(x + '|' + y);
    return {x: sx.of(x), y: sy.of(y), z: z === null ? null : sz.of(z), value: {x, y, z}};
  };
  return {sheet, points: xs.map(x => ys.map(y => point(x, y))), sx, sy, sz};
}

const ramp = [[38, 34, 98], [33, 95, 140], [32, 145, 140], [110, 200, 95], [250, 226, 40]];
function colour(z, shade) {
  const t = Math.max(0, Math.min(1, (z + 1) / 2)) * (ramp.length - 1);
  const i = Math.min(ramp.length - 2, Math.floor(t)), f = t - i;
  return 'rgb(' + ramp[i].map((low, k) => Math.round((low + (ramp[i + 1][k] - low) * f) * shade)).join(',') + ')';
}

class Viewer {
  constructor(canvas, readout) {
    this.canvas = canvas;
    this.readout = readout;
    this.reset();
    canvas.addEventListener('pointerdown', event => { this.held = [event.clientX, event.clientY];
                                                      canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointerup', () => { this.held = null; });
    canvas.addEventListener('pointermove', event => this.moved(event));
    canvas.addEventListener('wheel', event => { event.preventDefault(); this.zoomed(event.deltaY < 0 ? 1.1 : 1 / 1.1); },
                            {passive: false});
    canvas.addEventListener('keydown', event => this.pressed(event));
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }
  reset() { this.yaw = -0.7; this.pitch = 0.5; this.zoom = 1; }
  show(surface) { this.surface = surface; this.grid = gridOf(surface); this.draw(); }
  turned(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.max(-0.2, Math.min(1.5, this.pitch + pitch));
    this.draw();
  }
  zoomed(factor) { this.zoom = Math.max(0.4, Math.min(4, this.zoom * factor)); this.draw(); }
  pressed(event) {
    const step = 0.1;
    const turns = {ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step]};
    if (turns[event.key]) this.turned(...turns[event.key]);
    else if (event.key === '+' || event.key === '-') this.zoomed(event.key === '+' ? 1.1 : 1 / 1.1);
    else return;
    event.preventDefault();
  }
  moved(event) {
    if (this.held) {
      this.turned((event.clientX - this.held[0]) / 150, (event.clientY - this.held[1]) / 150);
      this.held = [event.clientX, event.clientY];
    } else {
      this.tell(event.offsetX, event.offsetY);
    }
  }
  // To the screen: right and down, and how near to the viewer; deep grows towards the viewer too.
  project({x, y, z}) {
    const cos = Math.cos(this.yaw), sin = Math.sin(this.yaw);
    const side = x * cos - y * sin, deep = x * sin + y * cos;
    const up = z * 0.75 * Math.cos(this.pitch) - deep * Math.sin(this.pitch);
    const near = deep * Math.cos(this.pitch) + z * 0.75 * Math.sin(this.pitch);
    const size = Math.min(this.width / 3.4, this.height / 2.9) * this.zoom / (1 - near * 0.08);
    return {left: this.width / 2 + side * size, top: this.height * 0.43 - up * size, near};
  }
  draw() {
    if (!this.grid) return;
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.pen = this.canvas.getContext('2d');
    this.pen.scale(ratio, ratio);
    this.drawAxes();
    this.drawSurface();
  }
  drawSurface() {
    const {points} = this.grid, cells = [];
    for (let i = 0; i + 1 < points.length; ++i) {
      for (let j = 0; j + 1 < points[i].length; ++j) {
        const corners = [points[i][j], points[i + 1][j], points[i + 1][j + 1], points[i][j + 1]];
        if (corners.some(corner => corner.z === null)) continue;
        const flat = corners.map(corner => this.project(corner));
        cells.push({corners, flat, near: flat.reduce((sum, one) => sum + one.near, 0)});
      }
    }
    cells.sort((a, b) => a.near - b.near);
    for (const cell of cells) this.drawCell(cell);
    document.body.dataset.cells = cells.length;
  }
  drawCell({corners, flat}) {
    const pen = this.pen;
    const height = corners.reduce((sum, corner) => sum + corner.z, 0) / 4;
    const slope = (corners[1].z - corners[0].z) - (corners[3].z - corners[0].z);
    pen.beginPath();
    flat.forEach((one, i) => i ? pen.lineTo(one.left, one.top) : pen.moveTo(one.left, one.top));
    pen.closePath();
    pen.fillStyle = colour(height, Math.max(0.75, Math.min(1, 0.92 + slope * 0.3)));
    pen.fill();
    pen.strokeStyle = 'rgba(0, 0, 0, 0.25)';
    pen.lineWidth = 0.6;
    pen.stroke();
  }
  line(from, to) {
    const [a, b] = [this.project(from), this.project(to)];
    this.pen.beginPath();
    this.pen.moveTo(a.left, a.top);
    this.pen.lineTo(b.left, b.top);
    this.pen.stroke();
  }
  label(text, at, out, align) {
    const flat = this.project(at);
    this.pen.textAlign = align || 'center';
    this.pen.fillText(text, flat.left + out[0], flat.top + out[1]);
  }
  drawAxes() {
    const {sx, sy, sz, sheet} = this.grid, {surface, pen} = this;
    pen.clearRect(0, 0, this.width, this.height);
    pen.strokeStyle = style('--line');
    pen.fillStyle = style('--quiet');
    pen.font = '12px system-ui, sans-serif';
    pen.lineWidth = 1;
    for (const tick of sx.ticks) this.line({x: sx.of(tick), y: -1, z: -1}, {x: sx.of(tick), y: 1, z: -1});
    for (const tick of sy.ticks) this.line({x: -1, y: sy.of(tick), z: -1}, {x: 1, y: sy.of(tick), z: -1});
    // Labels stand on the edges nearest to the viewer; heights on the edge farthest to the left.
    const lower = (a, b) => this.project(a).top > this.project(b).top;
    const y = lower({x: 0, y: -1, z: -1}, {x: 0, y: 1, z: -1}) ? -1 : 1;
    const x = lower({x: -1, y: 0, z: -1}, {x: 1, y: 0, z: -1}) ? -1 : 1;
    for (const tick of sx.ticks) this.label(worded(tick, surface.x), {x: sx.of(tick), y: y * 1.1, z: -1}, [0, 10]);
    for (const tick of sy.ticks) this.label(worded(tick, surface.y), {x: x * 1.1, y: sy.of(tick), z: -1}, [0, 10]);
    this.label(labelOf(sheet, surface.x), {x: 0, y: y * 1.3, z: -1}, [0, 22]);
    this.label(labelOf(sheet, surface.y), {x: x * 1.3, y: 0, z: -1}, [0, 22]);
    const posts = [[-1, -1], [-1, 1], [1, -1], [1, 1]].map(([px, py]) => ({x: px, y: py, z: -1}));
    const post = posts.reduce((best, one) => this.project(one).left < this.project(best).left ? one : best);
    this.line(post, {...post, z: 1});
    for (const tick of sz.ticks) {
      this.label(worded(tick, surface.z), {...post, z: sz.of(tick)}, [-8, 4], 'right');
    }
    this.label(labelOf(sheet, surface.z), {...post, z: 1}, [0, -18]);
  }
  tell(left, top) {
    let best = null, distance = 900;
    for (const point of this.grid.points.flat()) {
      if (point.z === null) continue;
      const flat = this.project(point), away = (flat.left - left) ** 2 + (flat.top - top) ** 2;
      if (away < distance) [best, distance] = [point, away];
    }
    const {surface, grid: {sheet}} = this;
    this.readout.textContent = best === null ? this.hint() :
      ['x', 'y', 'z'].map(axis => labelOf(sheet, surface[axis]) + ': ' + worded(best.value[axis], surface[axis])).join('; ');
  }
  hint() {
    const never = this.grid.points.flat().some(point => point.z === null);
    return 'Drag or use the arrow keys to turn, the wheel or + and - to zoom, point at a corner to read it.' +
      (never ? ' Where nothing is drawn, it never happens.' : '');
  }
}

function surfaces() {
  if (!report.surfaces.length) return;
  add(page, 'h2', 'Surfaces');
  const figure = add(page, 'figure', undefined, {class: 'surfaces'}), bar = add(figure, 'div', undefined, {class: 'bar'});
  const choice = add(bar, 'select', undefined, {'aria-label': 'Which surface'});
  report.surfaces.forEach((surface, i) => add(choice, 'option', surface.title, {value: i}));
  const back = add(bar, 'button', 'Turn back', {type: 'button'});
  const area = add(figure, 'canvas', undefined, {class: 'surface', tabindex: 0, role: 'img', 'aria-label': 'Surface; its numbers are in the table below'});
  const viewer = new Viewer(area, add(figure, 'figcaption', '', {class: 'readout'}));
  const show = () => { viewer.show(report.surfaces[choice.value]); viewer.readout.textContent = viewer.hint(); };
  choice.addEventListener('change', show);
  back.addEventListener('click', () => { viewer.reset(); viewer.draw(); });
  show();
}

// ---- Lines over a logarithmic axis ---------------------------------------------------------------------------------

function plot({title, sheet: name, x, y}) {
  const sheet = sheetNamed(name), ix = columnOf(sheet, x), area = canvas(title), first = labelOf(sheet, y[0]);
  const isWhole = value => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
  const datasets = y.map((one, i) => ({
    label: labelOf(sheet, one), borderColor: hues[i % hues.length], borderDash: i % 2 ? [9, 7] : [], borderWidth: 2,
    pointRadius: 0, order: y.length - i, data: sheet.rows.map(row => ({x: row[ix], y: row[columnOf(sheet, one)]})),
  }));
  const drawn = new Chart(area, {
    type: 'line',
    data: {datasets},
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, interaction: {mode: 'nearest', intersect: false},
      plugins: {legend: {position: innerWidth < 800 ? 'bottom' : 'right', labels: {color: style('--quiet')}},
                tooltip: {callbacks: {title: items => worded(items[0].parsed.x, x)}}},
      scales: {x: {...axis(), type: 'logarithmic', title: named(labelOf(sheet, x)),
                   ticks: {color: style('--quiet'), callback: value => isWhole(value) ? worded(value, x) : ''}},
               y: {...axis(), title: named(first.includes(', ') ? first.split(', ').pop() : title.split(/ by |, /)[0])}},
    },
  });
  area.dataset.lines = drawn.getVisibleDatasetCount();
}

// ---- The page ------------------------------------------------------------------------------------------------------

function sensitivity({result, value, constants}) {
  add(page, 'h2', 'What moves: ' + result + ' (' + exact(value) + ')');
  const columns = ['constant', '% for 1 %', 'at its low end', 'at its high end'].map(label => ({name: label, label}));
  const rows = constants.slice(0, 8).map(one => [one.name, one.elasticity, one.at_low, one.at_high]);
  sheetTable(page, {name: 'sensitivity', columns, rows});
}

function inputs() {
  const line = add(page, 'div', undefined, {class: 'inputs'});
  for (const [name, value] of Object.entries(report.inputs)) {
    if (!value && report.origins[name] !== 'given') continue;  // As the text of the command has it.
    const one = add(line, 'span', name.replace(/_(bytes_per_s|bytes|s)$/, '').replaceAll('_', ' ') + ' ');
    add(one, 'b', typeof value === 'number' ? worded(value, name) : typeof value === 'string' ? value : JSON.stringify(value));
    add(one, 'span', ' (' + report.origins[name] + ')');
  }
}

document.title = 'Penstock: ' + report.title;
add(page, 'h1', report.title);
if (report.answer) add(page, 'p', report.answer);
inputs();
surfaces();
report.plots.forEach(plot);
for (const sheet of report.sheets) {
  if (!sheet.bulk && sheet.rows.length) { add(page, 'h2', sheet.title); if (report.words?.[sheet.name]) add(page, 'p', report.words[sheet.name]); sheetTable(page, sheet); }
}
report.sensitivity.forEach(sensitivity);
if (report.notes.length) add(page, 'h2', 'Notes');
const notes = add(page, 'ul');
for (const note of report.notes) add(notes, 'li', note);
for (const sheet of report.sheets) {
  if (!sheet.bulk) continue;
  const details = add(page, 'details');
  add(details, 'summary', sheet.title + ': ' + sheet.rows.length + ' rows');
  sheetTable(details, sheet);
}
finish();
