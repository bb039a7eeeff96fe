// SPDX-License-Identifier: Apache-2.0
'use strict';
const report = data();
const percent = share => (100 * share).toFixed(1) + ' %';
// From calm to full.
const heat = share => 'hsl(' + Math.round(180 * (1 - Math.min(1, share))) + ' 70% 45%)';

function loadOf(node, names) {
  const counted = node.stations.filter(one => !names || names.includes(one.what));
  return Math.max(0, ...counted.map(one => report.stations[one.station].utilisation));
}

function figuresOf(node) {
  const lines = [node.name + ' (' + node.kind + (node.facts ? ', ' + node.facts : '') + ')'];
  for (const {what, station} of node.stations) {
    const one = report.stations[station];
    lines.push(what + ': ' + percent(one.utilisation) + ' busy, ' + shown(one.payload_bytes / 1e9) + ' GB' +
               (one.change_s > 0 ? ', changing streams ' + percent(one.change_s / report.seconds) : '') +
               (one.fence_s > 0 ? ', fences ' + percent(one.fence_s / report.seconds) : ''));
  }
  return lines.join('\n');
}

function shape(parent, tag, attributes, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
}

// Leaves side by side, everything else above the middle of what hangs below it.
function placed() {
  const below = report.nodes.map(() => []);
  report.nodes.forEach((node, i) => { if (node.parent !== null) below[node.parent].push(i); });
  const places = report.nodes.map(() => null);
  let right = 0, deepest = 0;
  const place = (index, depth) => {
    deepest = Math.max(deepest, depth);
    below[index].forEach(each => place(each, depth + 1));
    const ends = below[index].map(each => places[each].x);
    places[index] = {x: ends.length ? (ends[0] + ends[ends.length - 1]) / 2 : right++, y: depth};
  };
  report.nodes.forEach((node, i) => { if (node.parent === null) place(i, 0); });
  return {places, right, deepest};
}

function tree() {
  add(page, 'h2', 'The tree, its links coloured by load');
  if (report.nodes === null) return add(page, 'p', 'This machine has too many parts to be drawn; the tables have them.');
  const scale = add(page, 'p');
  scale.className = 'scale';
  add(scale, 'span', 'idle'); add(scale, 'i'); add(scale, 'span', 'busy all the time');
  const figure = add(page, 'figure');
  figure.id = 'tree';
  const {places, right, deepest} = placed();
  // The root stands to the left, since machines have more parts beside each other than below.
  const wide = 132, high = 36, box = {wide: 92, high: 28};
  const size = {wide: deepest * wide + box.wide + 10, high: right * high + 10};
  const svg = shape(figure, 'svg', {viewBox: `0 0 ${size.wide} ${size.high}`, role: 'group',
                                    style: `width: 100%; max-width: ${1.5 * size.wide}px`});
  const at = place => ({x: place.y * wide + box.wide / 2 + 5, y: place.x * high + high / 2 + 5});
  report.nodes.forEach((node, i) => {
    if (node.parent === null) return;
    const end = at(places[i]), start = at(places[node.parent]), load = loadOf(node, ['up', 'down']);
    shape(svg, 'path', {d: `M${start.x},${start.y} C${(start.x + end.x) / 2},${start.y} ${(start.x + end.x) / 2},${end.y} ${end.x},${end.y}`,
                        fill: 'none', stroke: heat(load), 'stroke-width': 2 + 4 * load, 'data-link': node.name});
  });
  const words = add(page, 'p', 'Point at a part, or go to it by the Tab key, for its figures.');
  words.className = 'details';
  words.setAttribute('role', 'status');
  report.nodes.forEach((node, i) => {
    const {x, y} = at(places[i]), name = node.name.length > 14 ? node.name.slice(0, 13) + '…' : node.name;
    const group = shape(svg, 'g', {class: 'at', tabindex: 0});
    shape(group, 'title', {}, figuresOf(node));
    shape(group, 'rect', {x: x - box.wide / 2, y: y - box.high / 2, width: box.wide, height: box.high, rx: 5,
                          style: 'stroke: ' + (node.stations.length ? heat(loadOf(node)) : 'var(--quiet)')});
    shape(group, 'text', {x, y: y + 4}, name);
    for (const event of ['pointerenter', 'focus']) group.addEventListener(event, () => { words.textContent = figuresOf(node); });
  });
}

function streams() {
  if (report.timelines === null) return;
  const {bin_s: span, gb_per_s: rows} = report.timelines;
  add(page, 'h2', 'Streams over time' + (rows.length < report.streams.length ? ', the first ' + rows.length : ''));
  const box = add(page, 'div');
  box.className = 'many';
  const labels = rows.length ? rows[0].map((_, i) => shown(1000 * span * i)) : [];
  const most = Math.max(...rows.map(row => Math.max(...row)));
  rows.forEach((row, i) => {
    const stream = report.streams[i], figure = add(box, 'figure', undefined, {style: 'background: ' + style('--wash')}), area = add(figure, 'canvas');
    area.setAttribute('role', 'img');
    area.setAttribute('aria-label', stream.name + '; its numbers are in a table below');
    new Chart(area, {
      type: 'line',
      data: {labels, datasets: [{data: row, borderColor: hues[i % hues.length], borderWidth: 1.5, pointRadius: 0}]},
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, interaction: {mode: 'index', intersect: false},
        plugins: {legend: {display: false},
                  title: {display: true, color: style('--ink'), text: stream.name + ': ' + shown(stream.bytes_per_second / 1e9) + ' GB/s'},
                  tooltip: {callbacks: {title: items => items[0].label + ' ms', label: item => item.formattedValue + ' GB/s'}}},
        scales: {x: {...axis(), title: named('ms'), ticks: {color: style('--quiet'), maxTicksLimit: 4}},
                 y: {...axis(), title: named('GB/s'), beginAtZero: true, suggestedMax: most}},
      },
    });
  });
}

function sweep() {
  if (!report.sweep) return;
  const {points} = report.sweep, area = canvas('How many streams give the most');
  new Chart(area, {
    type: 'line',
    data: {labels: points.map(one => one.streams),
           datasets: [{data: points.map(one => one.bytes_per_second / 1e9), borderColor: hues[0], pointRadius: 4}]},
    options: {animation: false, responsive: true, maintainAspectRatio: false, plugins: {legend: {display: false}},
              scales: {x: {...axis(), title: named('streams')}, y: {...axis(), beginAtZero: true, title: named('GB/s in all')}}},
  });
  table([['streams', one => String(one.streams)], ['GB/s', one => shown(one.bytes_per_second / 1e9)],
         ['which', one => one.which.slice(0, 16).join(', ') + (one.which.length > 16 ? ', …' : '')]], points);
  add(page, 'p', report.sweep.search + '; most in all: ' + report.sweep.best_streams + ' streams.');
}

add(page, 'h1', report.machine + ': ' + shown(report.shared_bytes_per_second / 1e9) + ' GB/s while all streams run');
add(page, 'p', 'A simulation, no measurement. Arbitration: ' + report.arbitration + ', IOMMU: ' + report.iommu + ', level: ' +
    report.level + '. ' + shown(report.bytes / 1e9) + ' GB in ' + shown(report.seconds) + ' s; busiest: ' + report.busiest_station + '.');
for (const note of report.notes) add(page, 'p', note);
tree();
streams();
sweep();
if (report.orderings.length) {
  add(page, 'h2', 'What was sent before it had arrived');
  add(page, 'p', 'By the model: completions that pass waiting data tell the first NIC too early. How often a machine does so is not known.');
  table([['ordering', one => one.ordering], ['fences', one => one.fence], ['s', one => shown(one.seconds)],
         ['GB/s', one => shown(one.bytes_per_second / 1e9)], ['I/Os sent stale', one => String(one.stale_ios)],
         ['of', one => String(one.ios)], ['stale bytes', one => String(one.stale_bytes)]], report.orderings);
}
add(page, 'h2', 'All streams');
table([['stream', one => one.name], ['GB/s', one => shown(one.bytes_per_second / 1e9)],
       ['p50, µs', one => one.latency ? shown(1e6 * one.latency.p50_s) : '–'],
       ['p99, µs', one => one.latency ? shown(1e6 * one.latency.p99_s) : '–'],
       ['held back by', one => one.is_bound_by_station ? one.busiest_station : 'depth and latency']], report.streams);
add(page, 'h2', 'All stations');
table([['station', one => one.name], ['kind', one => one.kind], ['busy, %', one => shown(100 * one.utilisation)],
       ['GB', one => shown(one.payload_bytes / 1e9)], ['changing, %', one => shown(100 * one.change_s / report.seconds)],
       ['fences, %', one => shown(100 * one.fence_s / report.seconds)]],
      [...report.stations].sort((a, b) => b.utilisation - a.utilisation));
finish();
