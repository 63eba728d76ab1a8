// What is shown is in the address, so that a link leads to it.

const DEFAULTS = {v: 'segments', s: 'order', d: '1', q: '', f: '', r: '', i: '', p: '', o: ''};
const state = {...DEFAULTS};
const listeners = [];

function readAddress() {
  let found = new URLSearchParams();
  try {
    found = new URLSearchParams(location.hash.slice(1));
  } catch { /* what is no address is as good as none */ }
  for (const key of Object.keys(DEFAULTS)) state[key] = found.get(key) ?? DEFAULTS[key];
  if (!measure(state.s)) state.s = DEFAULTS.s;
  if (state.f && !others().includes(state.f)) state.f = '';
  if (!/^\d+$/.test(state.i) || Number(state.i) >= DATA.n) state.i = '';
}

function address() {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value !== DEFAULTS[key]) found.set(key, value);
  }
  return `#${found}`;
}

// a step that the browser's back button undoes, or a change in place
function go(changes, {step = false} = {}) {
  const before = {...state};
  Object.assign(state, changes);
  if (address() !== location.hash && !(address() === '#' && location.hash === '')) {
    try {
      history[step ? 'pushState' : 'replaceState'](null, '', address());
    } catch { /* frames without an address of their own */ }
  }
  tell(before);
}

function tell(before) {
  const changed = new Set(Object.keys(DEFAULTS).filter((key) => before[key] !== state[key]));
  listeners.forEach((listener) => listener(changed));
}

window.addEventListener('popstate', () => {
  const before = {...state};
  readAddress();
  tell(before);
});
