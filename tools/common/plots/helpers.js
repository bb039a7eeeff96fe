// SPDX-License-Identifier: Apache-2.0
'use strict';
const page = document.getElementById('page');
const hues = ['#0a6c74', '#c4622d', '#7a5ea8', '#4c8c2b', '#b03060', '#3a6fb0', '#8a6d1d', '#5d6a72'];

function data() { return JSON.parse(document.getElementById('data').textContent); }

function style(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// Text of others is never taken for markup.
function add(parent, tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return parent.appendChild(element);
}

function shown(value) { return typeof value === 'number' ? String(Number(value.toPrecision(4))) : value ?? '–'; }

// Where Chart.js draws; its height in rem.
function canvas(title, height) {
  add(page, 'h2', title);
  const figure = add(page, 'figure');
  figure.style.background = style('--wash');  // Printed, too: what is drawn stands out from it.
  if (height) figure.style.height = height + 'rem';
  return add(figure, 'canvas', undefined, {role: 'img', 'aria-label': title + '; its numbers are in a table below'});
}

function named(text) { return {display: true, text, color: style('--quiet')}; }
function axis() { return {grid: {color: style('--line')}, ticks: {color: style('--quiet')}}; }

// A group of bars for each name, one of each data set; its height in rem.
function bars(title, unit, names, datasets, height) {
  new Chart(canvas(title, height), {
    type: 'bar',
    data: {labels: names, datasets},
    options: {
      indexAxis: 'y', animation: false, responsive: true, maintainAspectRatio: false,
      plugins: {legend: {display: datasets.length > 1, labels: {color: style('--ink')}}},
      scales: {x: {beginAtZero: true, title: named(unit), ...axis()}, y: axis()},
    },
  });
}

// Columns: [title, what it shows of a row]; numbers stand to the right. Without rows there is no table.
function table(columns, rows) {
  if (rows.length === 0) return;
  const box = add(page, 'div');
  box.className = 'wide';
  const whole = add(box, 'table'), head = add(add(whole, 'thead'), 'tr'), body = add(whole, 'tbody');
  for (const [title, show] of columns) {
    const cell = add(head, 'th', title);
    if (Number.isNaN(Number(show(rows[0])))) cell.className = 'text';
  }
  for (const row of rows) {
    const line = add(body, 'tr');
    for (const [, show] of columns) {
      const text = show(row), cell = add(line, 'td', text);
      if (Number.isNaN(Number(text)) && text !== '–') cell.className = 'text';
    }
  }
}

// Ends the page with where it is from, for who finds it later. For tests: how much was drawn.
function finish() {
  const made = JSON.parse(document.getElementById('made').textContent);
  const words = add(page, 'p', `Made ${made.date} on ${made.host} by Penstock ${made.version}: `, {class: 'made'});
  add(words, 'code', made.command);
  document.body.dataset.plots = document.querySelectorAll('canvas').length;
}
