// SPDX-License-Identifier: Apache-2.0
'use strict';
const told = data();
const rows = told.workloads;
const names = rows.map(row => row.workload);
const ways = rows[0].ways.map(way => way.way);

function barsOf(title, unit, valueOf, published) {
  const datasets = ways.map((way, i) => ({label: way, data: rows.map(row => valueOf(row, row.ways[i], i)), backgroundColor: hues[(i + 1) % hues.length]}));
  if (published) datasets.push({label: 'published', data: rows.map(published), backgroundColor: hues[7]});
  bars(title, unit, names, datasets, 8 + 4.5 * rows.length);
}

add(page, 'h1', 'Saves and loads in ' + told.folder);
add(page, 'p', told.file_system + ', at ' + told.scale + ' of the published sizes, ' + told.turns + ' turns. ' +
    (told.host_memory_stands_in ? 'Host memory stands in for a GPU.' : 'GPU: ' + told.device.name + '.'));
barsOf('How fast', 'GB/s', (row, way) => way.bytes_per_second / 1e9, null);
barsOf('How many times as fast as without', 'times', (row, way, i) => i === 0 ? 1 : way.gain.times,
     row => row.published.without_s / row.published.with_s);
const columns = [['workload', row => row.workload], ['GB', row => shown(row.bytes / 1e9)]];
ways.forEach((way, i) => columns.push([way + ', s', row => shown(row.ways[i].median_s)]));
columns.push(['times', row => shown(row.ways[1].gain.times)], ['95 % from', row => shown(row.ways[1].gain.low)],
             ['to', row => shown(row.ways[1].gain.high)], ['remarks', row => row.marks.join('; ') || '–']);
table(columns, rows);

add(page, 'h2', 'At full size, in proportion');
table([['workload', row => row.workload], ['what', row => row.title], ['without, s', row => shown(row.ways[0].full_size_s)],
       ['with, s', row => shown(row.ways[1].full_size_s)], ['published', row => shown(row.published.without_s)],
       ['published', row => shown(row.published.with_s)], ['waiting, h', row => shown(row.ways[0].waiting_hours)],
       ['with, h', row => shown(row.ways[1].waiting_hours)], ['waiting, $', row => shown(row.ways[0].waiting_money)],
       ['with, $', row => shown(row.ways[1].waiting_money)]], rows);
for (const note of told.notes) add(page, 'p', note);
finish();
