'use strict';
(() => {
  const by = (id) => document.getElementById(id);
  const state = by('state'), filter = by('filter'), pause = by('pause');
  let skew = 0; // of the server's clock
  let source = null, deadlocks = null;
  let heard = 0;     // when the last update came, or its connection was begun, by performance.now
  let going = false; // the times go on: the last update had no error
  let last = 0;      // when the last update came, by the server's clock; 0 before the first one
  const silence = 10000; // an update comes each second, and one that takes longer takes half of this at most

  for (const e of document.querySelectorAll('.script')) e.hidden = false;

  const say = (text) => { if (state.textContent !== text) state.textContent = text; };

  const short = (ms) => {
    const s = Math.floor(ms / 1000), two = (n) => String(n).padStart(2, '0');
    if (ms <= 0) return '0s';
    if (s < 1) return Math.round(ms) + 'ms';
    if (s < 60) return s + 's';
    if (s < 3600) return Math.floor(s / 60) + 'm' + two(s % 60) + 's';
    if (s < 86400) return Math.floor(s / 3600) + 'h' + two(Math.floor(s / 60) % 60) + 'm';
    return Math.floor(s / 86400) + 'd' + two(Math.floor(s / 3600) % 24) + 'h';
  };

  const times = (within) => {
    const now = Date.now() + skew;
    const put = (e, text) => { if (e.textContent !== text) e.textContent = text; };
    for (const e of within.querySelectorAll('[data-since]')) put(e, short(now - e.dataset.since));
    for (const e of within.querySelectorAll('[data-until]')) put(e, short(e.dataset.until - now));
  };

  // What had the focus, and what was unfolded, stays so.
  const swap = (old, fresh) => {
    const kept = ['a', 'summary', '[tabindex]'].find((s) => old.contains(document.activeElement) && document.activeElement.matches(s));
    const open = [...old.querySelectorAll('details')].map((d) => d.open);
    old.replaceWith(fresh);
    [...fresh.querySelectorAll('details')].forEach((d, i) => { d.open = !!open[i]; });
    if (kept) (fresh.querySelector(kept) || document.body).focus();
  };

  const parsed = (html) => {
    const t = document.createElement('template');
    t.innerHTML = html;
    return t.content;
  };

  const matches = () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const row of document.querySelectorAll('#held tbody tr, #waiting tbody tr')) {
      row.hidden = wanted !== '' && !row.textContent.toLowerCase().includes(wanted);
    }
  };

  const table = (name, news) => {
    const body = by(name).tBodies[0], fresh = new Map();
    for (const [id, html] of Object.entries(news.rows || {})) {
      const row = parsed(html).firstElementChild, old = by(id);
      if (old) swap(old, row); else fresh.set(id, row);
    }
    const stay = new Set(news.order);
    for (const row of [...body.rows]) if (!stay.has(row.id)) row.remove();
    let at = body.firstElementChild;
    for (const id of news.order) {
      const row = fresh.get(id) || by(id);
      if (row === at) at = at.nextElementSibling;
      else if (row) body.insertBefore(row, at);
    }
    by(name + '-none').hidden = news.order.length > 0;
    by(name + '-more').hidden = !news.more;
    by(name + '-more').firstElementChild.textContent = news.more;
  };

  const section = (id, html) => {
    const old = by(id), fresh = old.cloneNode(false);
    fresh.append(parsed(html));
    const places = [...old.querySelectorAll('.scroll')].map((s) => [s.scrollLeft, s.scrollTop]);
    swap(old, fresh);
    [...fresh.querySelectorAll('.scroll')].forEach((s, i) => { if (places[i]) [s.scrollLeft, s.scrollTop] = places[i]; });
  };

  const take = (event) => {
    const u = JSON.parse(event.data);
    heard = performance.now();
    going = !u.error;
    last = u.at;
    if (u.error) return say('The locks cannot be looked at: ' + u.error);
    skew = u.at - Date.now();
    for (const [id, html] of Object.entries(u.sections || {})) section(id, html);
    for (const [name, news] of Object.entries(u.tables || {})) table(name, news);
    if (u.tables) matches();
    times(document);
    const n = by('deadlock-count').textContent;
    if (n !== deadlocks && n !== '0') say('Live. Deadlocks: ' + n);
    else if (n !== deadlocks || !state.textContent.startsWith('Live')) say('Live');
    deadlocks = n;
    document.documentElement.dataset.updates = 1 + Number(document.documentElement.dataset.updates || 0);
  };

  const open = () => {
    heard = performance.now();
    const mine = new EventSource('?part=events');
    source = mine;
    mine.onmessage = take;
    mine.onerror = () => {
      going = false;
      say('The connection is lost; trying again');
      if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (source === mine) open(); }, 3000);
    };
  };

  // The times go on only as long as updates come: a server that stands still, or a network that loses everything, ends no connection.
  const tick = () => {
    if (!source) return;
    if (performance.now() - heard <= silence) {
      if (going) times(document);
      return;
    }
    going = false;
    say('No update' + (last ? ' since ' + new Date(last).toLocaleTimeString() : '') + '; trying again');
    source.close();
    open();
  };

  pause.addEventListener('click', () => {
    const paused = source !== null;
    pause.setAttribute('aria-pressed', String(paused));
    if (paused) { source.close(); source = null; going = false; say('Paused'); } else open();
  });
  filter.addEventListener('input', matches);
  setInterval(tick, 1000);
  open();
})();
