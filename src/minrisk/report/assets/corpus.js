// The corpus: distributions, the gain, and comparisons of strategies and systems.

let isBuilt = false;
let chosenSystem = null;

function showCorpus() {
  if (isBuilt) return;
  isBuilt = true;
  $('corpus').replaceChildren(...[summary(), distributions(), systemsSection(), validationSection(),
    provenance()].filter(Boolean));
}

const mean = (values) => values.length ? values.reduce((sum, v) => sum + v, 0) / values.length : null;
const sum = (values) => values.reduce((total, v) => total + (v ?? 0), 0);
const present = (values) => values.filter((v) => v !== null && v !== undefined);
const valuesOf = (key) => DATA.columns.id.map((_, i) => measure(key)[2](i));
const indices = () => DATA.columns.id.map((_, i) => i).filter((i) => !DATA.columns.error[i]);

function tile(name, value, note) {
  return h('div', {class: 'tile'}, h('dt', {}, name), h('dd', {}, value, note ? h('small', {}, note) : null));
}

function summary() {
  const c = DATA.columns, failed = c.error.filter(Boolean).length;
  const passed = c.request.filter((request) => request?.passed_through).length;
  const drawn = sum(c.samples), truncated = sum(c.truncated);
  const gain = mean(present(c.utility.map((u, i) => difference(u, c.mean[i]))));
  const reference = DATA.systems.by_reference;
  return h('section', {}, h('h2', {}, DATA.words.run), h('dl', {class: 'tiles'},
    tile(capital(DATA.words.units), plain(DATA.n), [failed ? `${plain(failed)} failed` : 'none failed',
      passed ? `${plain(passed)} passed through` : null].filter(Boolean).join(', ')),
    tile('Mean utility', number(signed(mean(present(c.utility)))), lead(gain, 'a sample at random')),
    reference.choice ? tile('Against human references', number(signed(reference.choice.value)),
      reference['one sample'] ? `one sample ${number(signed(reference['one sample'].value))}` : null) : null,
    tile('Mean confidence', percent(mean(present(c.confidence)))),
    tile('Distinct samples', percent(mean(present(valuesOf('distinct'))))),
    truncated ? tile('Truncated samples', percent(truncated / drawn), `${plain(truncated)} of ${plain(drawn)}`) : null,
    c.request.some(Boolean) ? requestTiles() : null));
}

function requestTiles() {
  const latencies = present(valuesOf('latency')).sort((a, b) => a - b);
  const tokens = present(valuesOf('tokens'));
  return [latencies.length ? tile('Median latency', seconds(latencies[latencies.length >> 1]),
    `${seconds(latencies[Math.floor(.95 * latencies.length)])} in 5% or more`) : null,
  tokens.length ? tile('Tokens', plain(sum(tokens)), `${plain(Math.round(mean(tokens)))} per request`) : null];
}

function distributions() {
  const pick = (key) => (low, high, isLast) => go({v: 'segments', i: '', q: '', f: '', s: key,
    r: `${key}:${low}:${isLast ? '' : high}`}, {step: true});
  const chart = (key, options) => histogram(measure(key)[1], valuesOf(key), {onpick: pick(key), ...options});
  const charts = [
    chart('utility'), chart('gain', {format: (v) => number(v, DATA.digits), note: 'Right of 0 the choice is better.'}), chart('margin'),
    chart('confidence', {range: [0, 1], format: percent}),
    chart('entropy', {format: (v) => number(v, 2)}), chart('distinct', {range: [0, 1], format: percent})];
  return h('section', {}, h('h2', {}, 'Distributions'),
    h('p', {class: 'note'}, `Choose a bar to see its ${DATA.words.units}.`),
    h('div', {class: 'charts'}, charts.filter(Boolean)));
}

function systemsSection() {
  const names = others();
  if (!names.length) return null;
  chosenSystem ??= names.find((name) => name !== 'one sample') ?? names[0];
  const {by_utility: utility, by_reference: reference} = DATA.systems;
  const hasReferences = Object.keys(reference).length > 0;
  const cells = (table, name) => {
    const found = table[name];
    if (!found) return [h('td', {colspan: 3, class: 'note'}, `not for every ${DATA.words.unit}`)];
    return [
      h('td', {class: 'num'}, number(signed(found.value), DATA.digits + 1),
        h('small', {}, ` ± ${number(found.interval, DATA.digits + 1)}`)),
      h('td', {class: 'num'}, name === 'choice' ? '' : lead(table.choice.value - found.value),
        found.ahead ? h('small', {}, ` [${leadRange(found.ahead)}]`) : null),
      h('td', {class: 'num'}, found.p === null ? '' : pValue(found.p))];
  };
  const columns = (mean) => [mean, 'choice is', 'p'].map(column);
  const group = (title) => h('th', {scope: 'colgroup', colspan: 3, class: 'group'}, title);
  const table = h('table', {class: 'systems'}, h('thead', {},
    h('tr', {}, h('td', {}), group('Expected utility'), hasReferences ? group('Against human references') : null),
    h('tr', {}, h('th', {scope: 'col'}, 'System'), columns('mean'), hasReferences ? columns('score') : null)),
  h('tbody', {}, DATA.systems.names.map((name) => h('tr', {}, h('th', {scope: 'row'}, name),
    cells(utility, name), hasReferences ? cells(reference, name) : null))));
  const select = h('select', {id: 'system', onchange: (event) => {
    chosenSystem = event.target.value;
    $('system-details').replaceChildren(...systemDetails());
  }}, names.map((name) => h('option', {value: name, selected: name === chosenSystem}, name)));
  const section = h('section', {}, h('h2', {}, 'Systems'),
    h('p', {class: 'note'}, `${DATA.sign > 0 ? 'Higher means are better.' : 'Lower means are better.'} Differences are leads of the choice, positive where it is better. `
      + `Intervals hold 95% of the means of resampled ${DATA.words.units}; p-values are of the paired permutation test against the choice.`),
    Object.entries(DATA.systems.biased).map(([name, metrics]) => h('p', {class: 'note biased'},
      `${name === 'choice' ? 'The output of this run' : name} was chosen by ${metrics.join(' and ')}, which overestimates it against human references too `
      + '(Kovacs et al. 2024): compare by another metric as well, with minrisk score.')),
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Systems'}, table),
    h('div', {class: 'section-head'}, h('h3', {}, 'The choice against'), h('label', {}, h('span', {class: 'hidden'}, 'System'), select)),
    h('div', {id: 'system-details'}));
  section.lastChild.append(...systemDetails());
  return section;
}

// turns the lead of a system over the choice into the lead of the choice
const leadRange = ([low, high]) => [-high, -low].map((v) => withSign(v)).join(', ');
const pValue = (p) => p < .001 ? '< 0.001' : number(p, 3);

function systemDetails() {
  const ahead = indices().map((i) => [i, leadOver(chosenSystem, i)]).filter(([, v]) => v !== null);
  const values = ahead.map(([, v]) => v);
  const near = (v) => Math.abs(v) < 1e-9;
  const wins = values.filter((v) => v > 0 && !near(v)).length, ties = values.filter(near).length;
  const {choice: own, [chosenSystem]: other} = DATA.systems.by_reference;
  const byReference = other !== undefined;
  const together = byReference && !near(own.value - other.value - mean(values)) ? own.value - other.value : null;  // a corpus score that is no mean
  const most = [...ahead].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 8).filter(([, v]) => !near(v));
  const outcomes = [[wins, 'better', 'c0'], [ties, 'equal', 'rest'], [values.length - wins - ties, 'worse', 'c1']];
  const bar = h('div', {class: 'shares', 'aria-hidden': 'true'}, outcomes.filter(([n]) => n).map(([n, name, kind]) => {
    const part = h('span', {class: `share ${kind}`}, n / values.length > .12 ? `${plain(n)} ${name}` : '');
    part.style.flexGrow = n;
    return part;
  }));
  return [
    h('p', {class: 'note'}, byReference ? 'By the metric against human references.' : 'By expected utility over the samples.'),
    bar, h('p', {}, `The choice is better in ${plain(wins)}, equal in ${plain(ties)} and worse in ${plain(values.length - wins - ties)} ${DATA.words.units}`,
      values.length ? `; in their mean it is ${lead(mean(values))}` : null, together === null ? '. ' : `, and by the score of all together ${lead(together)}. `,
      h('button', {type: 'button', onclick: () => go({v: 'segments', i: '', q: '', r: '', f: chosenSystem,
        s: `ahead:${chosenSystem}`}, {step: true})}, 'Show where they differ')),
    h('div', {class: 'charts'}, histogram(`Lead over ${chosenSystem}`, values.filter((v) => !near(v)),
      {centre: true, of: values, format: (v) => number(v, DATA.digits), note: 'Right of 0 the choice is better. Equal ones are left out.'}), buckets(ahead)),
    most.length ? h('h3', {class: 'after'}, `${capital(DATA.words.units)} that differ most`) : null,
    most.length ? h('ol', {class: 'most'}, most.map(([i, v]) => h('li', {},
      h('button', {type: 'button', class: 'link', onclick: () => openSegment(i, true)}, String(DATA.columns.id[i])),
      h('span', {class: 'num'}, lead(v)), prose('span', DATA.columns.source[i] ?? DATA.columns.text[i], {class: 'cut'})))) : null,
  ].filter(Boolean);
}

function buckets(ahead) {
  const length = (i) => measure('length')[2](i);
  const lengths = ahead.map(([i]) => length(i)).sort((a, b) => a - b);
  const bounds = [...new Set([.2, .4, .6, .8].map((q) => lengths[Math.floor(q * lengths.length)]))];
  const found = [...bounds, Infinity].map((high, n) => {
    const low = n ? bounds[n - 1] : 0;
    const inside = ahead.filter(([i]) => length(i) >= low && length(i) < high);
    return [high === Infinity ? `${plain(low)} or more` : `${plain(low)} to ${plain(high - 1)}`, inside.map(([, v]) => v)];
  }).filter(([, values]) => values.length);
  return h('figure', {}, h('figcaption', {}, h('strong', {}, `By length of the ${DATA.words.input}`)), h('table', {},
    h('thead', {}, h('tr', {}, ['Characters', capital(DATA.words.units), 'Better', 'Choice is'].map(column))),
    h('tbody', {}, found.map(([name, values]) => h('tr', {}, h('th', {scope: 'row'}, name), h('td', {class: 'num'}, plain(values.length)),
      h('td', {class: 'num'}, percent(values.filter((v) => v > 1e-9).length / values.length)),
      h('td', {class: 'num'}, lead(mean(values))))))));
}

function validationSection() {
  const found = DATA.validation;
  if (!found) return null;
  const isTolerable = (line) => line.lost_high <= found.tolerance || line === found.trials[0];
  const lost = (line) => `${number(line.lost, 3)} (${number(line.lost_low, 3)} to ${number(line.lost_high, 3)})`;
  const best = found.trials.find((line) => line.label === found.recommended);
  const cells = (line) => [percent(line.first, 1), percent(line.among, 1), lost(line),
    isTolerable(line) ? 'yes' : 'no', plain(Math.round(line.pairs)), number(1000 * line.seconds, 1)];
  return h('section', {}, h('h2', {}, 'Strategies'),
    h('p', {class: 'note'}, `How often each finds the choice of exact MBR, on ${count(found.segments, 'segment')} `
      + `of ${plain(Math.round(found.references))} references.`),
    h('p', {class: 'recommended'}, 'Recommended: ', h('strong', {}, best.label), best === found.trials[0]
      ? ', which is exact.' : `, which loses ${lost(best)}: the upper end of its 95% interval over segments is within the tolerance of ${number(found.tolerance, 3)}.`),
    curve(found.trials, found.recommended),
    h('h3', {class: 'after'}, 'Utility lost, with 95% intervals over segments'),
    intervals(found.trials, found.tolerance, found.recommended),
    h('details', {}, h('summary', {}, 'The same as a table'),
      h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Strategies'}, h('table', {class: 'trials'},
        h('thead', {}, h('tr', {}, ['Strategy', 'Budget', 'Top 1', 'Top K', 'Utility lost', 'Tolerated', 'Pairs', 'ms'].map(column))),
        h('tbody', {}, found.trials.map((line) => h('tr', {class: line === best ? 'base' : null},
          h('th', {scope: 'row'}, line.strategy), h('td', {}, line.budget), cells(line).map((cell) => h('td', {class: 'num'}, cell)))))))));
}

function provenance() {
  return h('section', {}, h('h2', {}, 'How it was made'), h('p', {class: 'note'},
    `Up to ${count(DATA.show, 'sample')} of each ${DATA.words.unit} are in this file. minrisk ${DATA.version}.`),
  h('code', {class: 'signature'}, DATA.signature));
}
