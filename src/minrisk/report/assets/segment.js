// One segment, and why its choice was chosen.

const words = new Intl.Segmenter(undefined, {granularity: 'word'});
const MAX_TABLE = 1e6;  // cells of the table of a word diff; longer texts are not compared
const MOST_ROWS = 100;  // samples shown at once
let showNumber = 0;

// words with the space after them, which the comparison ignores
function wordsOf(text) {
  const found = [];
  for (const {segment} of words.segment(text)) {
    if (/^\s+$/u.test(segment) && found.length) found[found.length - 1].text += segment;
    else found.push({text: segment, key: segment.trim()});
  }
  return found;
}

// word diff by longest common subsequence: new, missing and equal words
function differencesOf(base, text) {
  const [a, b] = [wordsOf(base), wordsOf(text)];
  const width = b.length + 1;
  if ((a.length + 1) * width > MAX_TABLE) return null;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i].key === b[j].key ? table[(i + 1) * width + j + 1] + 1
        : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  const found = [];
  const push = (kind, text) => {
    const last = found[found.length - 1];
    if (last && last[0] === kind) last[1] += text; else found.push([kind, text]);
  };
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i].key === b[j].key) { push('same', b[j++].text); i++; }
    else if (i < a.length && (j === b.length || table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      push('del', a[i++].text);
    } else push('ins', b[j++].text);
  }
  return found;
}

function withDifferences(text, base) {
  const found = base === null || base === text ? null : differencesOf(base, text);
  if (!found) return prose('span', text || '(empty)', {class: text ? null : 'empty-text'});
  return h('span', {dir: 'auto'}, found.map(([kind, part]) =>
    kind === 'same' ? part : [h(kind, {title: kind === 'ins' ? 'only here' : 'only in the other'}, part.trimEnd()),
      part.slice(part.trimEnd().length)]));
}

async function showSegment() {
  const mine = ++showNumber, i = current(), article = $('segment');
  document.body.classList.toggle('reading', state.i !== '');
  if (i === null) return article.replaceChildren(h('p', {class: 'empty'}, `Choose a ${DATA.words.unit}.`));
  const details = await detailsOf(i);
  if (mine !== showNumber) return undefined;
  article.replaceChildren(...(DATA.columns.error[i] ? failure(i) : sections(i, details)));
  article.scrollTop = 0;
  return undefined;
}

function failure(i) {
  return [head(i), h('div', {class: 'alert', role: 'note'}, h('strong', {}, `This ${DATA.words.unit} failed`),
    prose('p', DATA.columns.error[i])), requestFacts(i)].filter(Boolean);
}

function sections(i, details) {
  const c = DATA.columns;
  const pinned = details.texts[Number(state.p)] !== undefined && state.p !== '' ? Number(state.p) : null;
  const base = !showsDifferences() ? null : pinned === null ? c.text[i] : details.texts[pinned];
  const isRanked = !c.request[i]?.passed_through, isVote = isRanked && Boolean(details.votes);
  return [
    head(i),
    c.source[i] === null ? null : labelledSection(capital(DATA.words.input), prose('p', c.source[i], {class: 'text large'})),
    (details.human ?? []).map((text, n, all) => labelledSection(all.length > 1 ? `Human reference ${n + 1}` : 'Human reference',
      h('p', {class: 'text', dir: 'auto'}, withDifferences(text, base)))),
    isVote ? [tally(i, details), facts(i, isVote)] : null,
    labelledSection(isRanked ? 'Choice' : 'Passed through', isRanked ? null : h('p', {class: 'note'},
      'The request was passed through as it was, and is answered by the model alone: nothing was compared.'),
    prose('p', c.text[i] || '(empty)', {class: isVote ? 'text chosen' : 'text large chosen'})),
    proposal(details),
    requestFacts(i),
    isRanked ? [isVote ? null : facts(i, isVote), samples(i, details, base, pinned), outputs(i, details, base),
      isVote ? null : clusters(i, details), references(details), isVote ? null : similarities(details)]
      : details.texts.length > 1 ? labelledSection('All answers', details.texts.map((text) => prose('p', text, {class: 'text'}))) : null,
  ].flat(Infinity).filter(Boolean);
}

function head(i) {
  const place = rows.indexOf(i);
  const where = place < 0 ? 'not in the list now' : `${plain(place + 1)} of ${plain(rows.length)}`;
  const step = (by, name, key) => h('button', {type: 'button', 'aria-label': name, title: `${name} (${key})`,
    onclick: () => move(by)}, by < 0 ? '↑' : '↓');
  return h('div', {class: 'head'},
    h('button', {type: 'button', class: 'back', onclick: () => go({i: ''}, {step: true})}, '← List'),
    h('h2', {}, String(DATA.columns.id[i])), h('span', {class: 'note'}, where),
    h('span', {class: 'steps'}, step(-1, `Previous ${DATA.words.unit}`, 'k'), step(1, `Next ${DATA.words.unit}`, 'j')));
}

const labelledSection = (name, ...content) => h('section', {class: 'labelled'}, h('h3', {}, name), content);

const fact = (name, value, note) => h('div', {}, h('dt', {}, name), h('dd', {}, value,
  note ? h('small', {}, note) : null));

function facts(i, isVote) {
  const c = DATA.columns;
  const unanswered = c.unanswered[i] ? `, ${percent(c.unanswered[i])} without an answer` : '';
  return h('dl', {class: 'facts'},
    fact('Utility', number(signed(c.utility[i])), lead(difference(c.utility[i], c.mean[i]), 'a sample')),
    fact('Margin', number(c.margin[i], DATA.digits + 1), 'over the next'),
    DATA.compares ? fact('Confidence', percent(c.confidence[i])) : null,
    DATA.compares ? fact(isVote ? 'Answers' : 'Clusters', plain(c.clusters[i]),
      `entropy ${number(c.entropy[i], 2)}, ${percent(c.largest[i])} in the largest${unanswered}`) : null,
    fact('Samples', plain(c.samples[i]), `${plain(c.distinct[i])} distinct`
      + (c.truncated[i] ? `, ${plain(c.truncated[i])} truncated` : '')));
}

// an answer that is not one of the samples, or why the best sample was taken instead
function proposal(details) {
  const found = details.proposal;
  if (!found) return null;
  const shares = Object.entries(found.shares ?? {});
  const utilities = found.utility === null ? '' : ` Its expected utility is ${number(signed(found.utility))}, that of the best sample ${number(signed(found.best_utility))}.`;
  return labelledSection('Proposal',
    h('p', {class: 'note'}, found.kept ? `The choice is not one of the samples.${utilities}`
      : `The best sample was taken: ${found.reason}.${utilities}`),
    found.kept || found.text === undefined ? null : prose('p', found.text || '(empty)', {class: 'text'}),
    shares.length ? h('table', {class: 'votes'}, h('thead', {}, h('tr', {}, ['Field', 'Share of samples'].map(column))),
      h('tbody', {}, shares.slice(0, MOST_ROWS).map(([path, share]) => {
        const bar = h('span', {class: 'bar-cell'}, h('i', {}));
        bar.firstChild.style.width = percent(share);
        return h('tr', {}, h('th', {scope: 'row', class: 'answer'}, prose('span', path || '(all)')),
          h('td', {class: 'num'}, bar, h('span', {class: 'share-of'}, percent(share))));
      }))) : null);
}

// facts about a request that a server answered
function requestFacts(i) {
  const request = DATA.columns.request[i];
  if (!request) return null;
  const tokens = request.completion_tokens === undefined && request.prompt_tokens === undefined ? null
    : fact('Tokens', plain(tokensOf(request)), `${plain(request.prompt_tokens)} prompt, ${plain(request.completion_tokens)} completion`);
  const steps = Object.entries(request.seconds).filter(([name]) => name !== 'request')
    .map(([name, value]) => `${seconds(value)} ${name}`).join(', ');
  return h('dl', {class: 'facts request'},
    request.time ? fact('Time', clock(request.time), new Date(request.time).toLocaleDateString('en-GB', {dateStyle: 'medium'})) : null,
    request.model ? fact('Model', request.model) : null, tokens,
    fact('Latency', seconds(request.seconds.request), steps),
    request.finish_reason ? fact('Finish reason', request.finish_reason) : null,
    request.abstained ? fact('Abstained', 'yes', 'the client got no answer') : null);
}

// the answers of a vote, the most frequent first
function tally(i, details) {
  const c = DATA.columns;
  const known = details.votes.reduce((total, [, share]) => total + share, 0) + (c.unanswered[i] ?? 0);
  const rowOf = (name, share, count, kind) => {
    const bar = h('span', {class: 'bar-cell'}, h('i', {}));
    bar.firstChild.style.width = percent(share);
    return h('tr', {class: kind}, h('th', {scope: 'row', class: 'answer'}, name), h('td', {class: 'num'}, bar, h('span', {class: 'share-of'}, percent(share))),
      h('td', {class: 'num'}, count === null ? '' : plain(count)));
  };
  return labelledSection('Answer', c.answer[i] === null ? h('p', {class: 'empty-text'}, 'No sample has an answer.')
    : prose('p', c.answer[i], {class: 'text large answer chosen'}),
  h('table', {class: 'votes'}, h('thead', {}, h('tr', {}, ['Answer', 'Votes', 'Samples'].map(column))),
    h('tbody', {}, details.votes.map(([answer, share, count]) => rowOf(prose('span', answer), share, count, answer === c.answer[i] ? 'base' : null)),
      known < .999 ? rowOf(h('span', {class: 'note'}, 'other answers'), 1 - known, null) : null,
      c.unanswered[i] > 0 ? rowOf(h('span', {class: 'note'}, 'no answer'), c.unanswered[i], null, 'unanswered') : null)));
}

function samples(i, details, base, pinned) {
  const c = DATA.columns;
  const known = details.utilities.filter((u) => u !== null);
  const [low, high] = extent(known);
  const hasLogprobs = Boolean(details.logprobs), hasSupport = Boolean(details.support) && !details.answers;
  const likeliest = hasLogprobs ? details.logprobs.indexOf(Math.max(...details.logprobs.filter((l) => l !== null))) : -1;
  const hasAnswers = Boolean(details.answers), hasModels = Boolean(details.models);
  const titles = ['Rank', hasAnswers ? 'Answer' : null, 'Sample', DATA.compares && !hasAnswers ? 'Cluster' : null, hasModels ? 'Model' : null, 'Count', 'Utility', hasLogprobs ? 'Log-prob.' : null,
    hasSupport ? 'Support' : null].filter(Boolean);
  const rowOf = (text, n) => {
    const utility = details.utilities[n];
    const bar = h('span', {class: 'bar-cell'}, h('i', {}));
    bar.firstChild.style.width = utility === null ? '0' : `${high === low ? 100 : 8 + 92 * (utility - low) / (high - low)}%`;
    const marks = [n === 0 ? details.proposal?.kept ? 'best sample' : 'choice' : null, n === likeliest ? 'most probable' : null,
      n && details.ranks[n] === c.distinct[i] - 1 ? 'worst' : null, cutOff(details.finish?.[n])].filter(Boolean);
    const gap = n && details.ranks[n] !== details.ranks[n - 1] + 1;
    const isBase = n === (pinned ?? 0);
    return [gap ? h('tr', {class: 'gap'}, h('td', {colspan: titles.length},
      `${plain(details.ranks[n] - details.ranks[n - 1] - 1)} more between`)) : null,
    h('tr', {class: isBase ? 'base' : null},
      h('td', {class: 'rank'}, plain(details.ranks[n] + 1)),
      hasAnswers ? h('td', {class: 'answer'}, answerOf(details.answers[n])) : null,
      h('td', {class: 'sample'}, withDifferences(text, base), ' ',
        marks.map(tag),
        h('button', {type: 'button', class: 'pin', 'aria-pressed': `${isBase && base !== null}`,
          'aria-label': `Compare all with sample ${details.ranks[n] + 1}`,
          title: 'Compare all with this one', onclick: () => go({p: n ? String(n) : '', ...withDifferencesShown(true)})}, isBase && base !== null ? 'compared with' : 'compare')),
      DATA.compares && !hasAnswers ? h('td', {}, cluster(details.labels[n])) : null,
      hasModels ? h('td', {}, modelsOf(details.models[n])) : null,
      h('td', {class: 'num'}, details.counts[n] > 1 ? `${plain(details.counts[n])}×` : '1'),
      h('td', {class: 'num utility'}, bar, number(signed(utility), DATA.digits)),
      hasLogprobs ? h('td', {class: 'num'}, number(details.logprobs[n], 1)) : null,
      hasSupport ? h('td', {class: 'num'}, number(signed(details.support[n]), DATA.digits)) : null)];
  };
  const rowsFrom = (first, last) => details.texts.slice(first, last)
    .flatMap((text, offset) => rowOf(text, first + offset)).filter(Boolean);
  const body = h('tbody', {}, rowsFrom(0, MOST_ROWS));
  const more = details.texts.length - MOST_ROWS;
  const button = more > 0 && h('button', {type: 'button', onclick: () => {
    body.append(...rowsFrom(MOST_ROWS));
    button.remove();
  }}, `Show ${plain(more)} more`);
  const box = h('input', {type: 'checkbox', onchange: (event) => go(withDifferencesShown(event.target.checked))});
  box.checked = showsDifferences();
  return h('section', {}, h('div', {class: 'section-head'}, h('h3', {}, 'Samples by rank'),
    h('span', {class: 'note'}, `${plain(details.texts.length)} of ${count(c.distinct[i], 'distinct text')}`),
    h('label', {class: 'toggle'}, box, ` differences from ${pinned === null ? 'the choice' : `sample ${details.ranks[pinned] + 1}`}`)),
  h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Samples by rank'}, h('table', {class: 'samples'},
    h('thead', {}, h('tr', {}, titles.map(column))),
    body), button), otherSamples(details));
}

const CUT_OFF = {length: 'truncated', content_filter: 'filtered'};  // by finish reason
const cutOff = (reason) => CUT_OFF[reason] ?? null;
const tag = (name) => h('span', {class: name === 'truncated' || name === 'filtered' ? 'tag cut-off' : 'tag'}, name);
const modelsOf = (counts) => Object.entries(counts).map(([name, n]) => n > 1 ? `${name} ${plain(n)}×` : name).join(', ');
const answerOf = (answer) => answer === null ? h('span', {class: 'note'}, 'no answer') : prose('span', answer);

// samples that were drawn but could not win
function otherSamples(details) {
  if (!details.others) return null;
  return h('div', {class: 'others'}, h('h3', {}, 'Not compared'), h('table', {},
    h('thead', {}, h('tr', {}, ['Reason', 'Sample', 'Count'].map(column))),
    h('tbody', {}, details.others.map(([text, n, reason]) => h('tr', {},
      h('td', {}, tag(cutOff(reason) ?? (text.trim() ? 'another kind' : 'empty'))),
      h('td', {class: 'sample'}, prose('span', text || '(empty)', {class: text ? null : 'empty-text'})),
      h('td', {class: 'num'}, n > 1 ? `${plain(n)}×` : '1'))))));
}

function outputs(i, details, base) {
  const {names, utilities, scores} = DATA.systems;
  const found = ['choice', ...Object.keys(details.outputs ?? {})].map((name) => [name, names.indexOf(name)]);
  if (found.length < 2) return null;
  const hasScores = scores.some((column) => column && column[i] !== null);
  return h('section', {}, h('h3', {}, 'Other outputs'),
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Other outputs'}, h('table', {},
      h('thead', {}, h('tr', {}, ['System', 'Output', 'Utility', hasScores ? 'Against reference' : null].filter(Boolean)
        .map(column))),
      h('tbody', {}, found.map(([name, n]) => {
        const text = name === 'choice' ? DATA.columns.text[i] : details.outputs[name];
        return h('tr', {}, h('th', {scope: 'row'}, name),
          h('td', {class: 'sample'}, name !== 'choice' && text === DATA.columns.text[i]
            ? h('span', {class: 'note'}, 'the same as the choice') : withDifferences(text, base)),
          h('td', {class: 'num'}, number(signed(utilities[n][i]))),
          hasScores ? h('td', {class: 'num'}, number(signed(scores[n]?.[i] ?? null))) : null);
      })))));
}

// clusters of texts that are similar by the metric, if it compares texts
function clusters(i, details) {
  if (!DATA.compares) return null;
  const all = details.clusters, rest = 1 - all.reduce((sum, [, mass]) => sum + mass, 0);
  const bars = all.map(([label, mass]) => {
    const part = h('span', {class: `share c${label % 8}`, title: `${letter(label)}: ${percent(mass)}`},
      mass > .06 ? letter(label) : '');
    part.style.flexGrow = mass;
    return part;
  });
  if (rest > .001) {
    bars.push(h('span', {class: 'share rest', title: `others: ${percent(rest)}`}));
    bars[bars.length - 1].style.flexGrow = rest;
  }
  const total = details.parts?.reduce((sum, part) => sum + part, 0);
  const first = (label) => { const n = details.labels.indexOf(label); return n < 0 ? null : details.texts[n]; };
  return h('section', {}, h('h3', {}, 'Semantic clusters'),
    h('p', {class: 'note'}, DATA.columns.clusters[i] === 1 ? 'All samples are in one cluster.'
      : `${count(DATA.columns.clusters[i], 'cluster')} of samples that are alike, by their share of all samples.`),
    h('div', {class: 'shares', 'aria-hidden': 'true'}, bars),
    h('table', {class: 'clusters'}, h('thead', {}, h('tr', {}, ['Cluster', 'Best of it', 'Texts', 'Mass',
      details.parts && DATA.sign > 0 ? 'Of the utility' : null].filter(Boolean).map(column))),
    h('tbody', {}, all.map(([label, mass, size], n) => h('tr', {}, h('td', {}, cluster(label)),
      h('td', {class: 'sample'}, first(label) === null ? h('span', {class: 'note'}, 'not among the samples shown')
        : prose('span', first(label))),
      h('td', {class: 'num'}, plain(size)), h('td', {class: 'num'}, percent(mass, mass < .1 ? 1 : 0)),
      details.parts && DATA.sign > 0 ? h('td', {class: 'num'},
        total > 0 ? percent(details.parts[n] / Math.max(total, DATA.columns.utility[i]), 0) : '–') : null)))));
}

function references(details) {
  if (!details.references) return null;
  return h('section', {}, h('h3', {}, 'References that support the choice'),
    h('table', {}, h('thead', {}, h('tr', {}, ['Reference', 'Weight', 'Score of the choice'].map(column))),
      h('tbody', {}, details.references.map(([text, mass, score]) => h('tr', {},
        h('td', {class: 'sample'}, prose('span', text)), h('td', {class: 'num'}, percent(mass, 1)),
        h('td', {class: 'num'}, number(signed(score))))))));
}

function similarities(details) {
  const places = details.compared, size = places.length;
  if (size < 2) return null;
  const label = (n) => details.labels[places[n]];
  // by cluster, then by rank
  const order = [...Array(size).keys()].sort((a, b) => label(a) - label(b) || a - b);
  const labels = order.map(label);
  const names = order.map((n) => `${letter(label(n))}${details.ranks[places[n]] + 1}`);
  const values = order.flatMap((a) => order.map((b) => details.matrix[a * size + b]));
  const table = h('table', {class: 'matrix'}, h('thead', {}, h('tr', {}, h('td', {}),
    names.map((name) => h('th', {scope: 'col'}, name)))),
  h('tbody', {}, names.map((name, line) => h('tr', {}, h('th', {scope: 'row'}, name),
    values.slice(line * size, (line + 1) * size).map((value) => h('td', {class: 'num'}, number(signed(value))))))));
  return h('section', {}, h('h3', {}, 'Similarity'),
    h('p', {class: 'note'}, 'Score of each row with each column as its reference; letter of the cluster, then rank.'),
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Heat map'}, heatMap(labels, values, names)),
    h('details', {}, h('summary', {}, 'The same as a table'),
      h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table of similarities'}, table)));
}
