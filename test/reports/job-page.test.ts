// The page of a job: complete, escaped, and without scripts or requests.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { test } from 'node:test';
import { hour } from '../../src/core/model/time.ts';
import { jobPage, type JobPage } from '../../src/reports/job-page.ts';
import { formatNumber, ticksOf } from '../../src/reports/chart-numbers.ts';
import { plotSvg, type Plot } from '../../src/reports/job-plot.ts';
import { timelineLegend } from '../../src/reports/job-timeline.ts';

const from = Date.UTC(2026, 10, 20, 8);

/** Every text is `text`. */
function page(text: string): JobPage {
  return {
    id: text,
    name: `${text}2`,
    owner: text,
    phase: text,
    message: text,
    evidence: text,
    facts: [[text, text]],
    timeline: {
      from,
      until: from + 4 * hour,
      lanes: [
        { label: text, spans: [{ kind: 'useful', from, until: from + hour, detail: text }] },
        { label: text, spans: [{ kind: 'lost', from: from + hour, until: from + 2 * hour, detail: null }] },
      ],
      attempts: [{ at: from, name: text }],
    },
    attempts: [
      { name: text, startMode: text, from, until: from + hour, capacity: text, reason: text, evidence: text },
      { name: text, startMode: text, from, until: null, capacity: text, reason: null, evidence: null },
    ],
    cost: { rows: [{ use: text, time: text, estimate: text }], note: text },
    plots: [
      {
        title: text,
        xLabel: text,
        summary: text,
        series: [
          {
            attempt: 1,
            points: [
              [1, 2],
              [2, 1],
            ],
          },
        ],
      },
    ],
    history: [{ at: from, message: text }],
    logs: [{ title: text, text, isOpen: true }],
    documents: [{ title: text, text, isOpen: false }],
    notes: [text],
    madeAt: from + 5 * hour,
    version: text,
  };
}

function draw(points: Plot['series'][number]['points']): string {
  const picture = plotSvg({ title: '', xLabel: 'step', summary: '', series: [{ attempt: 1, points }] });
  assert.ok(!(picture instanceof Promise));
  return picture.toString();
}

const tagsOf = (document: string): readonly string[] => document.match(/<[^>]*>/g) ?? [];

test('nothing in a text becomes markup', async () => {
  const shape = tagsOf(await jobPage(page('x'))).map((tag) => tag.replace(/"[^"]*"/g, '""'));
  const attacks = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '</style></pre></title><svg onload=alert(1)>',
    '-->]]>&lt;script&gt;',
    '${1}{{x}}`',
  ];
  const check = async (text: string): Promise<void> => {
    const document = await jobPage(page(text));
    assert.deepEqual(
      tagsOf(document).map((tag) => tag.replace(/"[^"]*"/g, '""')),
      shape,
    );
  };
  for (const attack of attacks) await check(attack);
  await fc.assert(fc.asyncProperty(fc.string({ minLength: 1, maxLength: 30 }), check), { numRuns: 30 });
});

test('the policy forbids scripts and requests, and allows exactly the style of the page', async () => {
  const document = await jobPage(page('x'));
  const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(document) ?? [];
  const style = /<style>([\s\S]*?)<\/style>/.exec(document)?.[1] ?? '';
  const hash = createHash('sha256').update(style).digest('base64');
  const decoded = policy.replaceAll('&#39;', "'");
  assert.equal(decoded, `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`);
  assert.doesNotMatch(document, /<script|<link|<img|<iframe|\bsrc=|\bhref=|\bstyle=|url\(|@import/);
});

test('every section has its content', async () => {
  const facts = [
    ['log', 'one'],
    ['', 'two'],
    ['cost', '$2'],
  ] as const;
  const document = await jobPage({ ...page('x'), id: '000042', name: 'vit', phase: 'failed', facts });
  assert.match(document, /<title>000042 vit: failed<\/title>/);
  for (const heading of ['Job', 'Timeline', 'Attempts', 'Cost', 'Metrics', 'Log', 'History', 'Documents'])
    assert.ok(document.includes(`<h2>${heading}</h2>`), heading);
  assert.match(document, /useful: 2026-11-20 08:00:00 to 2026-11-20 09:00:00 UTC, x/);
  assert.match(document, /<td class="number">1h 0m<\/td>/);
  assert.match(document, /<dt>log<\/dt>\s*<dd>one\ntwo<\/dd>/);
  const empty = await jobPage({
    ...page('x'),
    timeline: null,
    attempts: [],
    cost: null,
    plots: [],
    logs: [],
    documents: [],
    history: [],
    owner: null,
    evidence: null,
  });
  assert.match(empty, /None has begun\./);
  assert.match(empty, /made by another tool/);
  assert.doesNotMatch(empty, /<svg|<h2>Log|<h2>Cost/);
});

test('a plot has gaps for values that are not finite, and never a coordinate that is not a number', () => {
  const points = [
    [1, 5],
    [2, Number.NaN],
    [3, 4],
    [4, 3],
    [5, Number.POSITIVE_INFINITY],
    [6, 1e308],
  ] as const;
  const picture = draw(points);
  assert.equal(picture.match(/<polyline/g)?.length, 1);
  assert.equal(picture.match(/<circle/g)?.length, 1);
  assert.doesNotMatch(picture, /NaN|Infinity/);
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.double(), fc.double()), { maxLength: 20 }), (random) => {
      assert.doesNotMatch(draw(random), /NaN|Infinity/);
    }),
  );
});

test('numbers, times and the legend', () => {
  assert.deepEqual([0, 0.123456, 5, 1234567, -0.5, 1e21].map(formatNumber), [
    '0',
    '0.1235',
    '5',
    '1,234,567',
    '-0.5',
    '1e+21',
  ]);
  assert.deepEqual(
    ticksOf(from, from + 30 * hour).map(({ text }) => text),
    ['12:00', '18:00', '11-21', '06:00', '12:00'],
  );
  assert.ok(ticksOf(from, from + 1).length <= 8);
  const timeline = page('x').timeline;
  assert.ok(timeline);
  assert.deepEqual(
    timelineLegend(timeline).map(({ kind }) => kind),
    ['useful', 'lost'],
  );
});
