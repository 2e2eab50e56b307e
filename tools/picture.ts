/**
 * `npm run picture` records docs/preempt-and-resume.svg: two real terminals (tmux) in which bin/jobman runs, one that
 * follows a job and one that preempts its TPU. The picture is an animation of all screens below each other, of which one
 * is visible at a time. Without animation it shows the last one.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';

const root = join(import.meta.dirname, '..');
const output = join(root, 'docs/preempt-and-resume.svg');

const columns = 96;
const upperRows = 20;
const lowerRows = 3;

/** In pixels. */
const [charWidth, lineHeight, fontSize, padding, titleHeight] = [7.8, 18, 13, 12, 26];

/** The picture shows a phase of the job, for example `provisioning`, for at most this time. */
const waitMsMax = 1500;
const runMsMax = 4500;
const frameMsMin = 300;
const lastFrameMs = 5000;
const sampleMs = 300;
const betweenLinesMs = 100;

interface Frame {
  readonly upper: readonly string[];
  readonly lower: readonly string[];
  readonly ms: number;
}

const home = mkdtempSync(join(tmpdir(), 'jobman-picture-'));
const env = {
  ...process.env,
  JOBMAN_HOME: join(home, 'jobman'),
  HOME: home,
  PATH: `${join(root, 'bin')}${delimiter}${process.env['PATH']}`,
  PS1: '$ ',
  TERM: 'xterm-256color',
};

function tmux(...args: readonly string[]): string {
  return execFileSync('tmux', ['-L', 'jobman-picture', '-f', '/dev/null', ...args], {
    env,
    cwd: root,
    encoding: 'utf8',
  });
}

/** The lines of a terminal with their colours as escape sequences. */
function screenOf(session: string, rows: number): readonly string[] {
  const lines = tmux('capture-pane', '-e', '-p', '-t', session)
    .split('\n')
    .map((line) => line.trimEnd());
  return Array.from({ length: rows }, (_, at) => lines[at] ?? '');
}

async function record(): Promise<readonly Frame[]> {
  const variables = ['JOBMAN_HOME', 'HOME', 'PATH', 'PS1', 'TERM'] as const;
  const settings = variables.map((name) => `${name}='${env[name]}'`).join(' ');
  const command = `env -i ${settings} LANG=C.UTF-8 bash --norc --noprofile`;
  for (const [session, rows] of [
    ['upper', upperRows],
    ['lower', lowerRows],
  ] as const)
    tmux('new-session', '-d', '-s', session, '-x', String(columns), '-y', String(rows), command);
  for (const session of ['upper', 'lower']) tmux('set-option', '-t', session, 'status', 'off');
  await sleep(1000);
  for (const session of ['upper', 'lower']) tmux('send-keys', '-t', session, 'clear', 'Enter');
  await sleep(500);

  const frames: Frame[] = [];
  let since = performance.now();
  const sample = (): string => {
    const frame = { upper: screenOf('upper', upperRows), lower: screenOf('lower', lowerRows) };
    const last = frames.at(-1);
    const now = performance.now();
    if (last === undefined || JSON.stringify([last.upper, last.lower]) !== JSON.stringify([frame.upper, frame.lower])) {
      if (last !== undefined) frames[frames.length - 1] = { ...last, ms: now - since };
      frames.push({ ...frame, ms: sampleMs });
      since = now;
    }
    return frame.upper.join('\n');
  };
  const until = async (pattern: RegExp, withinMs: number): Promise<void> => {
    const end = performance.now() + withinMs;
    while (!pattern.test(sample())) {
      if (performance.now() > end) throw new Error(`The terminal never showed ${String(pattern)}:\n${sample()}`);
      await sleep(sampleMs);
    }
  };
  const type = async (session: string, text: string): Promise<void> => {
    tmux('send-keys', '-t', session, '-l', text);
    await sleep(sampleMs);
    sample();
    tmux('send-keys', '-t', session, 'Enter');
  };

  await type('upper', 'jobman create configs/quick-start.yaml --follow');
  await until(/step +1[78]0\//, 60_000);
  // So that the cloud takes the TPU between two printed lines, and not while the workers print.
  await sleep(betweenLinesMs);
  await type('lower', 'jobman emulator preempt 1');
  await until(/resuming/, 60_000);
  await until(/succeeded after/, 60_000);
  await sleep(sampleMs);
  sample();
  return frames;
}

/** The phase in the status line, or `lines` while a terminal shows none. */
function phaseOf({ upper }: Frame): string {
  const status = upper.map((line) => /^ \d{6} \S+ (\w+)/.exec(stripVTControlCharacters(line))?.[1]);
  return status.find((phase) => phase !== undefined) ?? 'lines';
}

/** Shortens every phase, and drops the screens that would be visible for too short a time. */
function chooseFrames(recorded: readonly Frame[]): readonly Frame[] {
  const first = recorded.findIndex(({ upper }) => upper.some((line) => line.includes('jobman create')));
  const frames = recorded.slice(first);
  const chosen: Frame[] = [];
  for (let from = 0; from < frames.length;) {
    const phase = phaseOf(frames[from] as Frame);
    let to = from;
    while (to < frames.length && phaseOf(frames[to] as Frame) === phase) to++;
    const inPhase = frames.slice(from, to);
    const total = inPhase.reduce((sum, { ms }) => sum + ms, 0);
    const scale = Math.min(1, (phase === 'running' ? runMsMax : waitMsMax) / total);
    let shownMs = 0;
    for (const [at, frame] of inPhase.entries()) {
      shownMs += frame.ms * scale;
      const isLastOfPhase = at === inPhase.length - 1;
      if (shownMs < frameMsMin && !isLastOfPhase) continue;
      chosen.push({ ...frame, ms: Math.max(shownMs, frameMsMin) });
      shownMs = 0;
    }
    from = to;
  }
  const last = chosen.pop();
  return last === undefined ? [] : [...chosen, { ...last, ms: lastFrameMs }];
}

const escapes = new RegExp(String.raw`\u001B\[([\d;]*)m`, 'g');

/** `--follow` prints nearly no colours. The picture has those of `jobman list`, and red for the loss of the TPU. */
const highlights: readonly (readonly [pattern: RegExp, code: string])[] = [
  [/preempted.*|SUSPENDING|DELETING/, '31'],
  [/↻ recovering/, '35'],
  [/▸ running|resuming at step \d+ from/, '34'],
  [/succeeded/, '32'],
];

function highlight(line: string): string {
  if (line.startsWith('$ ')) return line;
  return highlights.reduce((text, [pattern, code]) => text.replace(pattern, `\u001B[${code}m$&\u001B[39m`), line);
}

/** A line as parts with the class of their colour. */
function partsOf(line: string): readonly (readonly [style: string, text: string])[] {
  const parts: [string, string][] = [];
  let style = '';
  let from = 0;
  for (const match of line.matchAll(escapes)) {
    if (match.index > from) parts.push([style, line.slice(from, match.index)]);
    from = match.index + match[0].length;
    for (const code of (match[1] ?? '').split(';')) {
      if (code === '' || code === '0' || code === '39' || code === '22') style = '';
      else if (colours[code] !== undefined) style = `c${code}`;
    }
  }
  if (from < line.length) parts.push([style, line.slice(from)]);
  return parts;
}

const colours: Readonly<Record<string, string>> = {
  '1': '#ffffff',
  '2': '#8b949e',
  '31': '#ff7b72',
  '32': '#56d364',
  '33': '#e3b341',
  '34': '#79c0ff',
  '35': '#d2a8ff',
  '36': '#76e3ea',
  '90': '#8b949e',
};

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function draw(frames: readonly Frame[]): string {
  const width = Math.ceil(columns * charWidth + 2 * padding);
  const upperHeight = titleHeight + upperRows * lineHeight + padding;
  const lowerHeight = titleHeight + lowerRows * lineHeight + padding;
  const gap = 10;
  const height = upperHeight + gap + lowerHeight;
  const ids = new Map<string, string>();
  const definitions: string[] = [];
  const idOf = (line: string): string => {
    const known = ids.get(line);
    if (known !== undefined) return known;
    const id = `l${ids.size}`;
    ids.set(line, id);
    const length = Math.round(Array.from(stripVTControlCharacters(line)).length * charWidth * 10) / 10;
    const spans = partsOf(highlight(line))
      .map(([style, text]) => (style === '' ? escapeXml(text) : `<tspan class="${style}">${escapeXml(text)}</tspan>`))
      .join('');
    definitions.push(`<text id="${id}" textLength="${length}">${spans}</text>`);
    return id;
  };
  const linesAt = (lines: readonly string[], top: number): string =>
    lines
      .map((line, row) =>
        stripVTControlCharacters(line).trim() === ''
          ? ''
          : `<use href="#${idOf(line)}" x="${padding}" y="${top + row * lineHeight}"/>`,
      )
      .join('');
  const groups = frames.map(({ upper, lower }, at) => {
    const y = at * height;
    const top = titleHeight + fontSize;
    return `<g>${linesAt(upper, y + top)}${linesAt(lower, y + upperHeight + gap + top)}</g>`;
  });
  const total = frames.reduce((sum, { ms }) => sum + ms, 0);
  let at = 0;
  const steps = frames.map(({ ms }, index) => {
    const percent = Math.round((at / total) * 10_000) / 100;
    at += ms;
    return `${percent}%{transform:translateY(${-index * height}px)}`;
  });
  const last = -(frames.length - 1) * height;
  const window_ = (y: number, windowHeight: number, title: string): string =>
    `<rect y="${y}" width="${width}" height="${windowHeight}" rx="8" fill="#0d1117"/>` +
    `<text x="${padding}" y="${y + 17}" class="c2 title">${title}</text>`;
  const used = Object.entries(colours).filter(
    ([code]) => definitions.some((line) => line.includes(`"c${code}"`)) || code === '2',
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    '<title>A training job loses its TPU and resumes on another one</title>',
    '<desc>Recorded by tools/picture.ts. One terminal follows a job on the TPU emulator, another one preempts its TPU. The job gets a new TPU, resumes from its last checkpoint and succeeds.</desc>',
    '<style>',
    `text{font:${fontSize}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}`,
    '.title{font-size:11px}',
    ...used.map(([code, colour]) => `.c${code}{fill:${colour}${code === '1' ? ';font-weight:bold' : ''}}`),
    `#film{transform:translateY(${last}px);animation:play ${Math.round(total / 100) / 10}s step-end infinite}`,
    `@keyframes play{${steps.join('')}}`,
    '@media (prefers-reduced-motion:reduce){#film{animation:none}}',
    '</style>',
    `<defs>${definitions.join('\n')}</defs>`,
    window_(0, upperHeight, 'terminal 1'),
    window_(upperHeight + gap, lowerHeight, 'terminal 2'),
    `<svg width="${width}" height="${height}"><g id="film">`,
    ...groups,
    '</g></svg>',
    '</svg>',
    '',
  ].join('\n');
}

try {
  const frames = chooseFrames(await record());
  const picture = draw(frames);
  writeFileSync(output, picture);
  console.log(`${frames.length} screens, ${Math.round(picture.length / 1000)} kB: ${output}`);
} finally {
  for (const args of [
    ['controller', 'stop'],
    ['emulator', 'stop'],
  ])
    execFileSync(join(root, 'bin/jobman'), args, { env, stdio: 'ignore' });
  tmux('kill-server');
  rmSync(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 300 });
}
