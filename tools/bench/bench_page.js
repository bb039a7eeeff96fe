// SPDX-License-Identifier: Apache-2.0
'use strict';
const sweep = data();

const rateOf = result => result.result.with_fsync || result.result.rate;
const isFlushed = sweep.results.some(result => result.result.with_fsync);
const [first, ...others] = sweep.axes;

// A line for each combination of all settings but the first, which the plots have from left to right.
const lines = new Map();
for (const result of sweep.results) {
  const name = others.map((axis, i) => axis.name + ' ' + result.combination[i + 1]).join(', ') || 'all';
  if (!lines.has(name)) lines.set(name, new Map());
  lines.get(name).set(result.combination[0], result);
}

// The 95 % intervals, which Chart.js has no mark for.
const intervals = {
  id: 'intervals',
  afterDatasetsDraw(chart) {
    chart.data.datasets.forEach((set, i) => {
      if (!set.intervals || !chart.isDatasetVisible(i)) return;
      const pen = chart.ctx, {left, top, width, height} = chart.chartArea;
      pen.save();
      pen.beginPath();
      pen.rect(left, top, width, height);
      pen.clip();
      pen.strokeStyle = set.borderColor;
      pen.lineWidth = 1;
      chart.getDatasetMeta(i).data.forEach((point, j) => {
        const interval = set.intervals[j];
        if (!interval || interval[0] === null) return;
        const [low, high] = interval.map(value => chart.scales.y.getPixelForValue(value));
        pen.beginPath();
        pen.moveTo(point.x, low);
        pen.lineTo(point.x, high);
        for (const end of [low, high]) { pen.moveTo(point.x - 4, end); pen.lineTo(point.x + 4, end); }
        pen.stroke();
      });
      pen.restore();
    });
  },
};

function plot(title, unit, valueOf, intervalOf, type) {
  const area = canvas(title);
  const datasets = [...lines].map(([name, results], i) => {
    const hue = hues[i % hues.length];
    const ordered = first.values.map(value => results.get(value));
    return {
      label: name,
      data: ordered.map(result => result ? valueOf(result) : null),
      intervals: intervalOf && ordered.map(result => result ? intervalOf(result) : null),
      borderColor: hue, backgroundColor: hue, borderDash: i % 2 ? [8, 5] : [], pointRadius: 3,
    };
  });
  new Chart(area, {
    type: 'line',
    data: {labels: first.values, datasets},
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, interaction: {mode: 'index', intersect: false},
      plugins: {legend: {display: lines.size > 1, labels: {color: style('--ink'), usePointStyle: true, pointStyle: 'line'}}},
      scales: {x: {...axis(), title: named(first.name)},
               y: {...axis(), title: named(unit), type, beginAtZero: type === 'linear',
                   suggestedMax: Math.max(0, ...datasets.flatMap(set => (set.intervals || []).map(one => one?.[1] ?? 0)))}},
    },
    plugins: [intervals],
  });
}

function numbers() {
  add(page, 'h2', 'All numbers');
  const columns = sweep.axes.map((axis, i) => [axis.name, one => one.combination[i]]);
  columns.push(['GB/s', one => shown(rateOf(one).gb_per_s)], ['95 % from', one => shown(rateOf(one).low)],
               ['to', one => shown(rateOf(one).high)], ['IOPS', one => shown(Math.round(one.result.iops))],
               ['p50, µs', one => shown(one.result.latency_us.p50)], ['p99, µs', one => shown(one.result.latency_us.p99)],
               ['CPU s/GB', one => shown(one.result.cpu_seconds_per_gb)],
               ['interrupts per GB', one => shown(one.result.interrupts_per_gb)],
               ['remarks', one => one.warnings.map(warning => warning.name).join(', ') || '–']);
  table(columns, sweep.results);
}

function heading() {
  const one = sweep.results[0];
  if (!one) return add(page, 'h1', 'Nothing was measured');
  const {settings, device} = one;
  add(page, 'h1', settings.rw + ' of ' + settings.file);
  add(page, 'p', settings.file_system + ', memory: ' + settings.memory + (device ? ' (' + device.name + ')' : '') +
      ', opened: ' + settings.descriptor + (settings.environment.length ? ', ' + settings.environment.join(', ') : ''));
}

heading();
if (sweep.results.length) {
  plot(isFlushed ? 'Rate with fsync, and its 95 % interval' : 'Rate, and its 95 % interval', 'GB/s',
       one => rateOf(one).gb_per_s, one => [rateOf(one).low, rateOf(one).high], 'linear');
  plot('Latency, 99th percentile', 'µs', one => one.result.latency_us.p99, null, 'logarithmic');
  plot('CPU time', 's per GB', one => one.result.cpu_seconds_per_gb, null, 'logarithmic');
  numbers();
}
finish();
