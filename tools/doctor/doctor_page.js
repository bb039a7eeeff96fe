// SPDX-License-Identifier: Apache-2.0
'use strict';
const told = data();

// A bar for each row of {name, value}, the first one in another hue where it is what the others are compared with.
function barsOf(title, unit, rows, isCompared) {
  const color = rows.map((row, i) => hues[isCompared && i === 0 ? 1 : 0]);
  bars(title, unit, rows.map(row => row.name), [{data: rows.map(row => row.value), backgroundColor: color}],
       6 + 2.2 * rows.length);
}

const isSave = told.operation === 'save';
const {seconds, plain_seconds: plain} = told.forecast;
const gigabytes = told.bytes / 1e9;
add(page, 'h1', (isSave ? 'Saving ' : 'Loading ') + shown(gigabytes) + ' GB takes ' + shown(seconds) + ' s');
add(page, 'p', told.forecast.binds_text + ' ' +
    (isSave ? '' : shown(told.cached_bytes / 1e9) + ' GB are in the page cache. ') +
    told.places.map(place => place.file + ': ' + place.file_system + (place.block_device ? ', ' + place.block_device : '') +
                    ', by ' + place.path).join('; ') + '.');

const rows = [{name: 'now', value: seconds}];
for (const change of told.changes) rows.push({name: (change.at_best ? 'at best: ' : '') + change.what, value: change.seconds});
if (plain !== null) rows.push({name: 'a program by itself, one thread', value: plain});
barsOf(isSave ? 'How long a save takes' : 'How long a load takes', 'seconds', rows, true);
add(page, 'p', told.forecast.changes_text + '.');
table([['seconds', one => shown(one.seconds)], ['change', one => one.what], ['how', one => one.command]], told.changes);

barsOf('What each part gives', 'GB/s', told.stages.map(one => ({name: one.what, value: one.bytes_per_second / 1e9})), false);
table([['GB/s', one => shown(one.bytes_per_second / 1e9)], ['slowest turn', one => shown(one.slowest / 1e9)],
       ['fastest', one => shown(one.fastest / 1e9)], ['CPUs busy', one => one.cpus_busy ? one.cpus_busy.toFixed(1) : '–'], ['part', one => one.what]],
      told.stages);
for (const one of told.doubts) add(page, 'p', 'Unknown: ' + one.what + ' (' + shown(one.low) + ' to ' + shown(one.high) + ' times as fast)');
for (const note of [...told.causes, ...told.notes]) add(page, 'p', note);
finish();
