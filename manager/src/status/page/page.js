'use strict';
(() => {
  const POLL = 3000, TIMEOUT = 10000;
  const STATUS = '/debug/status', GRAPH = '/debug/controllers/garbage-collector-controller/graph';
  const SVG = 'http://www.w3.org/2000/svg';
  const TONES = {running: 'good', standby: 'info', waiting: 'warn', yielding: '', unhealthy: 'bad'};
  const id = name => document.getElementById(name);
  let token = '', lastData = null, allCaches = false, last = null;

  // Text is set as text, never parsed as markup.
  const fill = (node, attributes, children) => {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null) node.setAttribute(key, value);
    }
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
  };
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const show = (node, visible) => { node.hidden = !visible; };
  const text = (node, value) => { if (node.textContent !== value) node.textContent = value; };

  const number = value => value.toLocaleString('en');
  const clock = date => date.toLocaleTimeString([], {hour12: false});
  const duration = seconds => {
    const parts = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];
    const at = parts.findIndex(([size]) => seconds >= size);
    if (at < 0) return '0s';
    const [size, unit] = parts[at], rest = Math.floor(seconds % size / (parts[at + 1] || [1])[0]);
    return Math.floor(seconds / size) + unit + (rest > 0 && parts[at + 1] ? ' ' + rest + parts[at + 1][1] : '');
  };
  const size = bytes => {
    const units = ['B', 'KiB', 'MiB', 'GiB'];
    let at = 0;
    while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
    return (at === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)) + ' ' + units[at];
  };
  const rate = value => (value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)) + '/s';

  const request = async path => {
    const headers = {Accept: 'application/json'};
    if (token) headers.Authorization = 'Bearer ' + token;
    return fetch(path, {headers, cache: 'no-store', credentials: 'omit', signal: AbortSignal.timeout(TIMEOUT)});
  };

  // A chart of the last samples, the latest one at the right; `bars` are drawn over it.
  const SAMPLES = 60, WIDTH = 84, HEIGHT = 20;
  const spark = (values, label, bars) => {
    const max = Math.max(1, ...values), step = WIDTH / (SAMPLES - 1);
    const x = at => ((SAMPLES - values.length + at) * step).toFixed(1);
    const y = value => (HEIGHT - value / max * HEIGHT).toFixed(1);
    const points = values.map((value, at) => x(at) + ' ' + y(value)).join(' L');
    const chart = svg('svg', {class: 'spark', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label});
    chart.append(svg('line', {class: 'base', x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT}));
    if (values.length > 1) {
      chart.append(
        svg('path', {class: 'area', d: `M${x(0)} ${HEIGHT} L${points} L${WIDTH} ${HEIGHT} Z`}),
        svg('path', {class: 'line', d: 'M' + points}));
    }
    (bars || []).forEach((value, at) => {
      if (value > 0) chart.append(svg('rect', {class: 'bar', x: x(at) - 1, y: y(Math.min(value, max)), width: 2, height: HEIGHT - y(Math.min(value, max))}));
    });
    return chart;
  };
  const charted = (label, value, values, unit, bars) => {
    const peak = Math.max(0, ...values);
    const chart = spark(values, `${label} in the last minutes, highest ${unit(peak)}`, bars);
    return el('td', {class: 'num chart', 'data-label': label}, el('span', {class: 'value'}, value), chart);
  };

  const renderLeader = (leader, data) => {
    const now = Date.parse(data.time), since = time => duration((now - Date.parse(time)) / 1000);
    const facts = [['Role', leader.leading ? 'Leader' : 'Standby']];
    if (leader.election) {
      facts.push(['Holder', leader.holder ? (leader.holder === leader.identity ? leader.holder + ' (this process)' : leader.holder) : 'none']);
      if (leader.holder !== leader.identity) facts.push(['Identity', leader.identity]);
      facts.push(['Lease', leader.lease]);
      if (leader.leadingSince) facts.push(['Term started', `${clock(new Date(leader.leadingSince))}, ${since(leader.leadingSince)} ago`]);
      facts.push(['Terms of this process', number(leader.terms)], ['Transitions', number(leader.transitions)]);
    } else {
      facts.push(['Election', 'off']);
    }
    facts.push(['Process started', since(data.startTime) + ' ago']);
    id('leader').replaceChildren(...facts.map(([key, value]) => el('div', {}, el('dt', {}, key), el('dd', {}, value))));
  };

  const renderControllers = (controllers, interval) => {
    const samples = Math.max(0, ...controllers.map(it => it.series.queued.length));
    text(id('window'), samples > 1 ? `Charts: last ${duration(samples * interval)}` : '');
    id('controllers').replaceChildren(...controllers.map(it => {
      const rates = it.series.processed.map(value => value / interval), failed = it.series.failed.map(value => value / interval);
      const oldest = it.oldest ? duration(it.oldest.seconds) : '–';
      return el('tr', {},
        el('td', {class: 'main'}, el('span', {class: 'strong'}, it.name), it.reason ? el('div', {class: 'reason'}, it.reason) : null),
        el('td', {}, el('span', {class: 'pill ' + (TONES[it.state] || '')}, it.state)),
        charted('Queued', number(it.queued), it.series.queued, number),
        charted('Oldest item', oldest, it.series.oldestSeconds, duration),
        charted('Processed', rate(rates.length ? rates[rates.length - 1] : 0), rates, rate, failed),
        el('td', {class: 'num', 'data-label': 'In flight'}, number(it.processing)),
        el('td', {class: 'num' + (it.failed ? ' failed' : ''), 'data-label': 'Failed'}, number(it.failed)));
    }));
  };

  const renderErrors = errors => {
    show(id('no-errors'), errors.length === 0);
    show(id('errors-table'), errors.length > 0);
    id('errors').replaceChildren(...errors.map(it => el('tr', {},
      el('td', {}, el('time', {datetime: it.last}, clock(new Date(it.last)))),
      el('td', {class: 'main'}, it.controller),
      el('td', {class: 'wide'}, el('code', {}, it.object)),
      el('td', {class: 'wide message'}, it.message),
      el('td', {class: 'num', 'data-label': 'Times'}, number(it.count)))));
  };

  const renderCaches = data => {
    const {caches, unsynced} = data;
    const total = caches.reduce((sum, it) => sum + it.bytes, 0), objects = caches.reduce((sum, it) => sum + it.objects, 0);
    text(id('caches-total'), `${number(objects)} objects, ${size(total)}`);
    const bad = it => it.status !== 'synced' || it.undecodable > 0;
    const shown = caches.filter(it => allCaches || it.required || bad(it));
    const all = id('caches-all');
    show(all, allCaches || shown.length < caches.length);
    text(all, allCaches ? 'Show fewer' : `Show all ${caches.length}`);
    all.setAttribute('aria-expanded', String(allCaches));
    show(id('unsynced'), unsynced.length > 0);
    text(id('unsynced'), 'Not synced: ' + unsynced.join(', '));
    shown.sort((a, b) => bad(b) - bad(a) || b.required - a.required || (a.resource < b.resource ? -1 : 1));
    id('caches').replaceChildren(...shown.map(it => {
      const tone = it.status === 'synced' ? 'good' : it.status === 'syncing' ? 'info' : 'warn';
      const [status, ...reason] = it.status.split(': ');
      return el('tr', {},
        el('td', {class: 'main'}, el('span', {class: 'strong'}, it.resource), it.required ? null : el('span', {class: 'muted'}, ' metadata')),
        el('td', {}, el('span', {class: 'pill ' + tone}, status),
          reason.length ? el('div', {class: 'reason'}, reason.join(': ')) : null,
          it.undecodable ? el('div', {class: 'reason failed'}, `${number(it.undecodable)} undecodable`) : null),
        el('td', {class: 'num', 'data-label': 'Objects'}, number(it.objects)),
        el('td', {class: 'num', 'data-label': 'Size'}, size(it.bytes)),
        el('td', {class: 'num', 'data-label': 'Last event'}, duration(it.ageSeconds) + ' ago'));
    }));
  };

  // The live region changes only if the state does, so that it is not announced at every refresh.
  let stateKey = '';
  const renderState = pills => {
    const key = JSON.stringify(pills);
    if (key === stateKey) return;
    stateKey = key;
    id('state').replaceChildren(...pills.map(([label, tone]) => el('span', {class: 'pill ' + tone}, label)));
  };

  const render = data => {
    last = data;
    text(id('name'), data.manager);
    text(id('version'), data.version);
    document.title = `${data.manager}: ${data.leader.leading ? 'leader' : 'standby'}`;
    const failing = data.failingChecks.length;
    renderState([
      data.leader.leading ? ['Leader', 'good'] : ['Standby', 'info'],
      failing ? [`${failing} failing check${failing > 1 ? 's' : ''}`, 'bad'] : ['Healthy', 'good'],
    ]);
    show(id('checks'), failing > 0);
    id('checks-list').replaceChildren(...data.failingChecks.map(it => el('li', {}, el('b', {}, it.name), ': ' + it.reason)));
    renderLeader(data.leader, data);
    renderControllers(data.controllers, data.intervalSeconds);
    renderErrors(data.errors);
    renderCaches(data);
  };

  const noData = reason => {
    document.body.classList.toggle('stale', lastData !== null);
    renderState([['No data', 'bad']]);
    text(id('updated'), (lastData ? `No data since ${clock(lastData)}: ` : 'No data: ') + reason + '. Retrying.');
  };

  const needToken = status => {
    show(id('data'), false);
    const first = id('access').hidden;
    show(id('access'), true);
    document.body.classList.remove('stale');
    renderState([['Signed out', 'warn']]);
    text(id('updated'), '');
    text(id('access-reason'), status === 401
      ? (token ? 'The API server does not accept this token.' : 'The status needs authentication.')
      : (token ? 'The user of this token may not get /debug/status.' : 'An anonymous user may not get /debug/status.'));
    if (first) id('token').focus();
  };

  let timer = 0, running = false;
  const refresh = async () => {
    clearTimeout(timer);
    if (running) return;
    running = true;
    try {
      const response = await request(STATUS);
      if (response.status === 401 || response.status === 403) {
        needToken(response.status);
      } else if (!response.ok) {
        noData(`the process answered ${response.status}`);
      } else {
        const data = await response.json();
        lastData = new Date();
        show(id('access'), false);
        show(id('data'), true);
        document.body.classList.remove('stale');
        text(id('updated'), 'Updated ' + clock(lastData));
        render(data);
      }
    } catch (error) {
      noData(error.name === 'TimeoutError' ? 'the process does not answer' : 'the process is not reachable');
    } finally {
      running = false;
      // A hidden page does not poll. Without a token, polling would only be refused again.
      if (!document.hidden && id('access').hidden) timer = setTimeout(refresh, POLL);
    }
  };

  // The graph: owners above the selected object, dependents below it.
  const identity = node => [node.kind, node.namespace, node.name].filter(Boolean).join('/');
  const levels = (nodes, selected) => {
    const byUid = new Map(nodes.map(node => [node.uid, node]));
    const level = new Map([[selected, 0]]);
    const walk = (start, step, next) => {
      let open = [start];
      for (let depth = step; open.length; depth += step) {
        open = open.flatMap(uid => next(uid)).filter(uid => byUid.has(uid) && !level.has(uid) && level.set(uid, depth));
      }
    };
    walk(selected, -1, uid => byUid.get(uid).owners);
    walk(selected, 1, uid => nodes.filter(node => node.owners.includes(uid)).map(node => node.uid));
    // Other owners of a dependent are above it.
    for (const node of nodes) {
      if (!level.has(node.uid)) {
        const below = nodes.filter(it => it.owners.includes(node.uid) && level.has(it.uid)).map(it => level.get(it.uid));
        level.set(node.uid, below.length ? Math.min(...below) - 1 : 0);
      }
    }
    return level;
  };
  // The end of a generated name tells it apart.
  const cut = (value, length) => value.length > length ? value.slice(0, length - 7) + '…' + value.slice(-6) : value;

  let drawn = null, drawnWidth = 0;
  const clear = () => { drawn = null; id('graph').replaceChildren(); };
  const draw = reply => {
    const {nodes, selected, leftOut} = drawn = reply;
    const area = id('graph'), available = Math.max(300, area.clientWidth);
    const narrow = available < 500, width = narrow ? 140 : 210, height = 44, gap = narrow ? 12 : 22, rise = 40;
    const perRow = Math.max(1, Math.floor((available + gap) / (width + gap)));
    const level = levels(nodes, selected), rows = [];
    for (const depth of [...new Set(level.values())].sort((a, b) => a - b)) {
      const inLevel = nodes.filter(node => level.get(node.uid) === depth).sort((a, b) => identity(a) < identity(b) ? -1 : 1);
      for (let at = 0; at < inLevel.length; at += perRow) rows.push({nodes: inLevel.slice(at, at + perRow), first: at === 0});
    }
    const widest = Math.max(...rows.map(row => row.nodes.length)), total = widest * (width + gap) - gap;
    const place = new Map();
    let y = 2;
    rows.forEach((row, at) => {
      if (at > 0) y += height + (row.first ? rise : 12);
      const left = (total - (row.nodes.length * (width + gap) - gap)) / 2;
      row.nodes.forEach((node, column) => place.set(node.uid, {x: left + column * (width + gap), y}));
    });
    const drawing = svg('svg', {width: total + 4, height: y + height + 2, viewBox: `-2 0 ${total + 4} ${y + height + 2}`, role: 'group', 'aria-label': 'Owners and dependents'});
    for (const node of nodes) {
      for (const owner of node.owners.filter(uid => place.has(uid))) {
        const from = place.get(owner), to = place.get(node.uid), x1 = from.x + width / 2, y1 = from.y + height, x2 = to.x + width / 2, bend = Math.max(20, Math.abs(to.y - y1) / 2);
        drawing.append(svg('path', {class: 'edge', d: `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${to.y - bend} ${x2} ${to.y}`}));
      }
    }
    const letters = Math.floor((width - 20) / 7);
    // In the order of the rows, which the keyboard follows.
    for (const node of rows.flatMap(row => row.nodes)) {
      const {x, y: top} = place.get(node.uid);
      const flags = [node.deleting && 'terminating', node.missing ? 'not in the graph' : node.virtual && 'not observed'].filter(Boolean);
      const group = svg('g', {
        class: ['node', node.uid === selected && 'selected', node.deleting && 'deleting', (node.missing || node.virtual) && 'absent'].filter(Boolean).join(' '),
        transform: `translate(${x} ${top})`, role: 'button', tabindex: 0, 'data-uid': node.uid,
        'aria-label': [identity(node), ...flags].join(', '), 'aria-current': node.uid === selected ? 'true' : null,
      },
        svg('title', {}, `${node.apiVersion} ${identity(node)}\nuid ${node.uid}\n${node.dependents} dependents${flags.length ? '\n' + flags.join(', ') : ''}`),
        svg('rect', {width, height, rx: 6}),
        svg('text', {class: 'kind', x: 10, y: 17}, cut([node.kind, ...flags].join(' · '), letters + 4)),
        svg('text', {x: 10, y: 34}, cut(node.name, letters)));
      group.addEventListener('click', () => select(node.uid));
      group.addEventListener('keydown', event => {
        if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); select(node.uid); }
      });
      drawing.append(group);
    }
    area.replaceChildren(drawing);
    drawnWidth = area.clientWidth;
    const chosen = nodes.find(node => node.uid === selected);
    text(id('graph-note'), (chosen ? identity(chosen) : '') + (leftOut ? `. ${number(leftOut)} more objects are not drawn.` : ''));
  };

  // The message of a Status, or the text itself.
  const message = body => {
    try { return JSON.parse(body).message; } catch (error) { return body.trim(); }
  };
  // Only the answer of the latest request is shown.
  let asked = 0;
  const ask = async (query, answer) => {
    const mine = ++asked;
    text(id('graph-note'), 'Searching');
    let reply, problem = '';
    try {
      const response = await request(`${GRAPH}?format=json&${new URLSearchParams(query)}`);
      if (response.ok) reply = await response.json();
      else problem = response.status === 404 ? 'The garbage collector does not run in this process.' : message(await response.text());
    } catch (error) {
      problem = 'The process is not reachable.';
    }
    if (mine !== asked) return;
    id('matches').replaceChildren();
    if (reply) { answer(reply); return; }
    clear();
    text(id('graph-note'), problem);
  };
  const select = uid => ask({uid}, reply => {
    if (reply.nodes.length) { draw(reply); return; }
    clear();
    text(id('graph-note'), 'The object is no longer in the graph.');
  });
  const search = query => ask({search: query}, ({matches, truncated}) => {
    if (matches.length === 1) { select(matches[0].uid); return; }
    clear();
    text(id('graph-note'), matches.length === 0 ? 'No object matches.' : `${matches.length}${truncated ? ' or more' : ''} objects match. Choose one.`);
    id('matches').replaceChildren(...matches.map(match => {
      const choice = el('li', {}, el('button', {type: 'button', 'data-uid': match.uid}, identity(match)));
      choice.firstChild.addEventListener('click', () => select(match.uid));
      return choice;
    }));
  });

  id('search').addEventListener('submit', event => { event.preventDefault(); search(id('query').value.trim()); });
  id('access-form').addEventListener('submit', event => {
    event.preventDefault();
    token = id('token').value.trim();
    id('token').value = '';
    refresh();
  });
  id('caches-all').addEventListener('click', () => { allCaches = !allCaches; if (last) renderCaches(last); });
  addEventListener('resize', () => { if (drawn && drawnWidth !== id('graph').clientWidth) draw(drawn); });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
  refresh();
})();
