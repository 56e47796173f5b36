// Values of points and lines for the mouse, the finger and the keyboard. The page is whole without it.
// All numbers come from the CSV file behind each figure's link: what is shown and what is downloaded cannot differ.
(() => {
  'use strict';
  const SVG = 'http://www.w3.org/2000/svg';
  const make = (tag, text, cls) => {
    const e = document.createElement(tag);
    if (text) e.textContent = text;
    if (cls) e.className = cls;
    return e;
  };
  const show = (text) => {
    const v = Number(text), size = Math.abs(v);
    if (text === '' || !Number.isFinite(v)) return text;
    if (size !== 0 && (size < 1e-4 || size >= 1e15)) return String(Number(v.toPrecision(6)));
    return v.toLocaleString('en-US', { maximumSignificantDigits: 7 });
  };
  // RFC 4180: fields in quotes may hold anything, a quote twice.
  const parse = (text) => {
    const rows = [[]];
    const field = /(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/gy;
    for (let m; field.lastIndex < text.length && (m = field.exec(text));) {
      rows.at(-1).push(m[1] === undefined ? m[2] : m[1].replaceAll('""', '"'));
      if (m[3] === '\n') rows.push([]);
    }
    if (rows.at(-1).length === 0) rows.pop();
    return rows;
  };
  const read = (link) => parse(decodeURIComponent(link.href.slice(link.href.indexOf(',') + 1)));

  const prepare = (figure) => {
    const link = figure.querySelector('a.csv'), box = figure.querySelector('.plot');
    if (!link || !box) return;
    let data = null;
    const load = () => {
      if (data) return data;
      const [names, ...rows] = read(link), roles = link.dataset.roles.split(' ');
      const at = Object.fromEntries(roles.map((role, i) => [role, i]));
      const get = (row, role) => (role in at ? row[at[role]] : '');
      const panels = JSON.parse(link.dataset.panels);
      // A value on an axis with names is the position of its name.
      const axes = JSON.parse(link.dataset.names || '[]');
      const along = (text, panel) => (axes[panel] && axes[panel].length ? axes[panel].indexOf(text) : +text);
      const series = new Map();
      for (const row of rows) {
        const kind = get(row, 'kind'), panel = get(row, 'panel');
        if (kind === 'rule' || kind === 'band') continue;
        const id = JSON.stringify([panel, kind, get(row, 'key'), get(row, 'series')]);
        if (!series.has(id)) series.set(id, []);
        const number = panels.indexOf(panel);
        series.get(id).push({ row, kind, panel: number, x: along(get(row, 'x'), number), y: +get(row, 'y') });
      }
      const words = ({ row, kind }) => {
        const lines = [`${names[at.x]}: ${show(get(row, 'x'))}`, `${names[at.y]}: ${show(get(row, 'y'))}`];
        if (get(row, 'low') !== '') lines.push(`${show(get(row, 'low'))} to ${show(get(row, 'high'))}`);
        if (kind !== 'cell') return [get(row, 'series') || get(row, 'key'), ...lines];
        const value = get(row, 'value');
        return [`${get(row, 'series')}: ${value === '' ? 'not measured' : show(value)}`, ...lines];
      };
      return (data = { names, rows, series: [...series.values()], words });
    };

    const svg = () => [...box.querySelectorAll('svg')].find((s) => s.getBoundingClientRect().width > 0);
    const tip = make('div', '', 'tip'), hear = make('p', '', 'hear');
    tip.hidden = true;
    hear.setAttribute('aria-live', 'polite');
    box.append(tip, hear);
    const ring = document.createElementNS(SVG, 'circle');
    ring.setAttribute('class', 'ring');
    ring.setAttribute('r', '7');
    // The place of a value in the drawing, or null outside its plot. The plots are in the order of the panels.
    const place = (frames, point) => {
      const f = frames[point.panel];
      if (!f) return null;
      const along = (v, log, lo, hi) => log ? (Math.log10(v) - Math.log10(lo)) / (Math.log10(hi) - Math.log10(lo)) : (v - lo) / (hi - lo);
      const u = along(point.x, f[4], f[5], f[6]), v = along(point.y, f[7], f[8], f[9]);
      if (!(u >= -1e-6 && u <= 1 + 1e-6 && v >= -1e-6 && v <= 1 + 1e-6)) return null;
      return [f[0] + u * (f[2] - f[0]), f[3] - v * (f[3] - f[1])];
    };
    const hide = () => { tip.hidden = true; ring.remove(); };
    const tell = (picture, point, aloud) => {
      const at = place(JSON.parse(picture.dataset.frames), point);
      const [head, ...lines] = load().words(point);
      tip.replaceChildren(make('b', head), ...lines.map((line) => make('div', line)));
      if (aloud) hear.textContent = [head, ...lines].join(', ');
      tip.hidden = false;
      if (!at) { ring.remove(); tip.style.transform = 'none'; return; }
      ring.setAttribute('cx', at[0]);
      ring.setAttribute('cy', at[1]);
      picture.append(ring);
      const outer = box.getBoundingClientRect(), inner = picture.getBoundingClientRect();
      const scale = inner.width / picture.viewBox.baseVal.width;
      const x = inner.left - outer.left + at[0] * scale, y = inner.top - outer.top + at[1] * scale;
      const left = x + 14 + tip.offsetWidth > outer.width ? x - 14 - tip.offsetWidth : x + 14;
      const top = Math.min(Math.max(0, y - tip.offsetHeight / 2), outer.height - tip.offsetHeight);
      tip.style.transform = `translate(${Math.round(Math.min(Math.max(0, left), outer.width - tip.offsetWidth))}px, ${Math.round(top)}px)`;
    };
    const point = (event) => {
      const picture = svg();
      if (!picture) return;
      const inner = picture.getBoundingClientRect(), scale = inner.width / picture.viewBox.baseVal.width;
      const at = [(event.clientX - inner.left) / scale, (event.clientY - inner.top) / scale];
      const frames = JSON.parse(picture.dataset.frames);
      let best = null, least = 28, cell = null, nearest = Infinity;
      for (const one of load().series.flat()) {
        const f = frames[one.panel];
        if (!f || at[0] < f[0] - 8 || at[0] > f[2] + 8 || at[1] < f[1] - 8 || at[1] > f[3] + 8) continue;
        const p = place(frames, one);
        if (!p) continue;
        const dx = Math.abs(p[0] - at[0]), dy = Math.abs(p[1] - at[1]);
        if (one.kind === 'cell') {
          if (dx + dy < nearest) { nearest = dx + dy; cell = one; }
        } else if (Math.hypot(dx, dy) < (cell ? 12 : least)) {
          least = Math.hypot(dx, dy);
          best = one;
        }
      }
      if (best || cell) tell(picture, best || cell, false); else hide();
    };
    box.addEventListener('pointermove', point);
    box.addEventListener('pointerdown', point);
    box.addEventListener('pointerleave', () => { if (document.activeElement !== box) hide(); });

    box.tabIndex = 0;
    box.setAttribute('role', 'group');
    const name = figure.querySelector('figcaption b');
    box.setAttribute('aria-label', `${name ? name.textContent : 'Figure'} Arrow keys read the values.`);
    let line = 0, step = -1;
    box.addEventListener('keydown', (event) => {
      const { series } = load();
      if (event.key === 'Escape') return hide();
      const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -Infinity], End: [0, Infinity] };
      const move = moves[event.key], picture = svg();
      if (!move || !series.length || !picture || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      line = (line + move[0] + series.length) % series.length;
      step = Math.min(Math.max(0, step + move[1]), series[line].length - 1);
      tell(picture, series[line][step], true);
    });
    box.addEventListener('blur', hide);
    // Native tooltips would appear beside ours.
    for (const title of box.querySelectorAll('title')) title.remove();

    const details = make('details'), most = 1000;
    details.append(make('summary', 'Values as a table'));
    details.addEventListener('toggle', () => {
      if (!details.open || details.querySelector('table')) return;
      const { names, rows } = load(), table = make('table'), head = make('tr'), body = make('tbody');
      for (const n of names) { const th = make('th', n); th.scope = 'col'; head.append(th); }
      for (const row of rows.slice(0, most)) {
        const tr = make('tr');
        for (const v of row) tr.append(make('td', v));
        body.append(tr);
      }
      const thead = make('thead'), scroll = make('div', '', 'scroll');
      thead.append(head);
      table.append(thead, body);
      scroll.tabIndex = 0;
      scroll.append(table);
      if (rows.length > most) scroll.append(make('p', `The first ${most} of ${rows.length} rows; the file has all.`));
      details.append(scroll);
    });
    link.parentElement.after(details);
  };

  for (const figure of document.querySelectorAll('figure')) prepare(figure);

  // Above a table that is wider than its place: a word that it scrolls, until it has been scrolled to its end.
  for (const scroll of document.querySelectorAll('main .scroll')) {
    const hint = make('span', 'scroll \u2192', 'hint');
    hint.setAttribute('aria-hidden', 'true');
    scroll.before(hint);
    const update = () => { hint.hidden = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft < 2; };
    scroll.addEventListener('scroll', update, { passive: true });
    new ResizeObserver(update).observe(scroll);
    update();
  }
  addEventListener('beforeprint', () => { for (const fold of document.querySelectorAll('details.long')) fold.open = true; });

  if (navigator.clipboard) {
    for (const pre of document.querySelectorAll('pre.command')) {
      const button = make('button', 'Copy', 'copy');
      button.type = 'button';
      button.addEventListener('click', async () => {
        try {
          await navigator.clipboard.writeText(pre.textContent);
          button.textContent = 'Copied';
        } catch {
          button.textContent = 'Cannot copy here';
        }
      });
      pre.after(button);
    }
  }
})();
