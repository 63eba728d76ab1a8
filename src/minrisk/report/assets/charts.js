// Charts: histograms made of buttons, a heat map, a curve.

function histogram(title, values, {range, format = number, bins = 20, onpick, note, centre, of} = {}) {
  const known = values.filter((v) => v !== null && v !== undefined);
  if (!known.length) return null;
  let [low, high] = range ?? extent(known);
  if (centre) [low, high] = [-1, 1].map((side) => side * Math.max(Math.abs(low), Math.abs(high)));
  if (low === high) high = low + (Math.abs(low) || 1);
  const width = (high - low) / bins;
  const heights = new Array(bins).fill(0);
  for (const v of known) heights[Math.min(bins - 1, Math.max(0, Math.floor((v - low) / width)))] += 1;
  const most = Math.max(...heights);
  const bars = heights.map((size, bin) => {
    const [from, to] = [low + bin * width, low + (bin + 1) * width];
    const label = `${format(from)} to ${format(to)}: ${count(size, DATA.words.unit)}`;
    const side = !centre ? '' : to <= 0 + width / 1e6 ? ' below' : ' above';
    const bar = h(onpick && size ? 'button' : 'span', {
      class: `bar${side}`, title: label, type: onpick && size ? 'button' : null,
      'aria-label': onpick && size ? `Show ${label}` : null,
      onclick: onpick && size ? () => onpick(from, to, bin === bins - 1) : null,
    }, h('i', {}));
    bar.firstChild.style.height = size ? `${Math.max(2, 100 * size / most)}%` : '0';
    return bar;
  });
  const sorted = [...(of ?? known)].sort((a, b) => a - b);  // `of`: all values, if the bars show a part
  return h('figure', {class: 'histogram'},
    h('figcaption', {}, h('strong', {}, title),
      h('span', {}, `mean ${format(mean(sorted))} · median ${format(sorted[sorted.length >> 1])}`)),
    roving(h('div', {class: 'bars', role: 'group', 'aria-label': `Distribution of ${title}`}, bars)),
    h('div', {class: 'axis', 'aria-hidden': 'true'},
      h('span', {}, format(low)), centre ? h('span', {}, '0') : null, h('span', {}, format(high))),
    note ? h('p', {class: 'note'}, note) : null);
}

function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return [low, high];
}

// roving tabindex: the tab key stops once at the group, arrow keys move inside it
function roving(group) {
  const buttons = [...group.querySelectorAll('button')];
  buttons.forEach((button, n) => button.setAttribute('tabindex', n ? '-1' : '0'));
  group.addEventListener('keydown', (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    const next = buttons[buttons.indexOf(document.activeElement) + step];
    if (!step || !next) return;
    buttons.forEach((button) => button.setAttribute('tabindex', '-1'));
    next.setAttribute('tabindex', '0');
    next.focus();
    event.preventDefault();
  });
  return group;
}

function heatMap(labels, values, names) {
  const size = labels.length, cell = 34, margin = 34;
  const [low, high] = extent(values.filter((v) => v !== null));
  const share = (v) => high === low ? 1 : (v - low) / (high - low);
  const cells = [];
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const value = values[row * size + column], part = share(value);
      const at = {x: margin + column * cell, y: margin + row * cell};
      cells.push(s('g', {}, s('title', {}, `${names[row]} against ${names[column]}: ${number(signed(value))}`),
        s('rect', {...at, width: cell - 1, height: cell - 1, rx: 2, class: 'ground'}),
        s('rect', {...at, width: cell - 1, height: cell - 1, rx: 2, class: 'heat',
          'fill-opacity': part.toFixed(3)}),
        s('text', {x: at.x + cell / 2 - .5, y: at.y + cell / 2 + 4, class: part > .55 ? 'on' : 'off'},
          number(signed(value), DATA.digits > 1 ? 2 : 0))));
    }
  }
  const axis = names.flatMap((name, n) => [
    s('text', {x: margin - 8, y: margin + n * cell + cell / 2 + 4, class: 'tick end'}, name),
    s('text', {x: margin + n * cell + cell / 2, y: margin - 10, class: 'tick'}, name)]);
  // a line between clusters
  const lines = labels.flatMap((label, n) => n && label !== labels[n - 1] ? [
    s('path', {class: 'border', d: `M${margin - 4} ${margin + n * cell - .5}h${size * cell + 4}`
      + `M${margin + n * cell - .5} ${margin - 4}v${size * cell + 4}`})] : []);
  const whole = margin + size * cell + 2;
  return s('svg', {viewBox: `0 0 ${whole} ${whole}`, width: whole, class: 'heat-map', role: 'img',
    'aria-label': 'Similarities of samples; the table below has the same numbers'}, cells, axis, lines);
}

function curve(rows, recommended) {
  const [width, height, left, bottom, top, right] = [640, 330, 46, 40, 40, 44];
  const xs = rows.map((row) => Math.log10(Math.max(1, row.pairs)));
  const [low, high] = [Math.floor(Math.min(...xs)), Math.ceil(Math.max(...xs))];
  const x = (pairs) => left + (width - left - right)
    * (Math.log10(Math.max(1, pairs)) - low) / Math.max(1, high - low);
  const y = (accuracy) => height - bottom - (height - bottom - top) * accuracy;
  const shapes = [...new Set(rows.map((row) => row.strategy))];
  const marks = rows.map((row) => {
    const kind = shapes.indexOf(row.strategy);
    const best = row.label === recommended;
    return s('g', {transform: `translate(${x(row.pairs).toFixed(1)} ${y(row.first).toFixed(1)})`,
      class: `mark c${kind % 8}`}, s('title', {}, `${row.label}: ${percent(row.first, 1)}`),
    best ? s('circle', {r: 11, class: 'ring'}) : null, symbol(kind),
    best ? s('text', {y: -16, class: 'tick'}, 'recommended') : null);
  });
  const lines = shapes.map((name, kind) => s('polyline', {class: `line c${kind % 8}`, points: rows
    .filter((row) => row.strategy === name).sort((a, b) => a.pairs - b.pairs)
    .map((row) => `${x(row.pairs).toFixed(1)},${y(row.first).toFixed(1)}`).join(' ')}));
  const ticks = [];
  for (let power = low; power <= high; power++) {
    ticks.push(s('text', {x: x(10 ** power), y: height - bottom + 18, class: 'tick'},
      (10 ** power).toLocaleString('en')));
  }
  for (const accuracy of [0, .25, .5, .75, 1]) {
    ticks.push(s('path', {class: 'rule', d: `M${left} ${y(accuracy)}H${width - right}`}),
      s('text', {x: left - 8, y: y(accuracy) + 4, class: 'tick end'}, percent(accuracy)));
  }
  const legend = shapes.map((name, kind) => h('li', {},
    s('svg', {viewBox: '-8 -8 16 16', width: 16, height: 16, 'aria-hidden': 'true', class: `mark c${kind % 8}`},
      symbol(kind)), name));
  return h('figure', {class: 'curve'},
    s('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label':
      'How often each strategy finds the exact choice, over the pairs it evaluates; the table has the numbers'},
    ticks, lines, marks, s('text', {x: (left + width) / 2, y: height - 4, class: 'tick'}, `pairs evaluated per ${DATA.words.unit}`)),
    h('ul', {class: 'legend'}, legend));
}

// the interval of each trial's loss as a line, and the tolerance
function intervals(rows, tolerance, recommended) {
  const [width, left, step, right, top] = [640, 240, 22, 24, 8];
  const bottom = top + rows.length * step;
  const [low, high] = extent([0, tolerance, ...rows.flatMap((row) => [row.lost_low, row.lost_high])]);
  const x = (value) => left + (width - left - right) * (value - low) / (high - low || 1);
  const lines = rows.map((row, n) => {
    const y = top + (n + .5) * step;
    return s('g', {class: `trial${row.lost_high <= tolerance ? ' tolerated' : ''}${row.label === recommended ? ' best' : ''}`},
      s('title', {}, `${row.label}: ${number(row.lost, 3)} (${number(row.lost_low, 3)} to ${number(row.lost_high, 3)})`),
      s('text', {x: left - 12, y: y + 4, class: 'end'}, row.label),
      s('path', {d: `M${x(row.lost_low).toFixed(1)} ${y}H${x(row.lost_high).toFixed(1)}`}),
      s('circle', {cx: x(row.lost).toFixed(1), cy: y, r: 4}));
  });
  const mark = (value, name, kind) => [s('path', {class: kind, d: `M${x(value)} ${top}V${bottom}`}),
    s('text', {x: x(value), y: bottom + (kind === 'rule' ? 16 : 32), class: 'tick'}, `${name}${number(value, 3)}`)];
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Intervals'},
    s('svg', {viewBox: `0 0 ${width} ${bottom + 40}`, class: 'intervals', role: 'img', 'aria-label':
      'Utility that each strategy loses, with its interval and what is tolerated; the table has the numbers'},
    mark(0, '', 'rule'), mark(high, '', 'rule'), mark(tolerance, 'tolerated: ', 'limit'), lines));
}

function symbol(kind) {
  const paths = ['M-5-5h10v10h-10z', 'M0-6L6 5H-6z', 'M0-6L6 0L0 6L-6 0z', 'M0 6L6-5H-6z',
    'M-5-2h3v-3h4v3h3v4h-3v3h-4v-3h-3z'];
  return kind % 6 === 0 ? s('circle', {r: 5}) : s('path', {d: paths[kind % 6 - 1]});
}
