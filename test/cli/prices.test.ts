/** `jobman prices`: settings in, text and exit code out. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { defaultSettings } from '../../src/app/settings.ts';
import type { OwnPrice } from '../../src/reports/prices.ts';
import { jobman } from './support/harness.ts';

function prices(argv: readonly string[], own: readonly OwnPrice[] = [], columns?: number) {
  return jobman(['prices', ...argv], {
    ...(columns === undefined ? {} : { terminal: { columns, rows: 24 } }),
    services: { settings: async () => defaultSettings(4, new Map([['prices', own]])) },
  });
}

test('a type has a price for a chip-hour and an hour; the last line has source and date', async () => {
  const { code, out, err } = await prices(['v5litepod-16', '--zone', 'us-west4-a']);
  assert.equal(code, 0);
  assert.equal(
    out,
    `ACCELERATOR   LOCATION  PRICING   PER CHIP-HOUR  PER HOUR  SOURCE
v5litepod-16  us-west4  ondemand        $1.2000    $19.20  list price of 2026-08-01
v5litepod-16  us-west4  spot            $0.4800     $7.68  list price of 2026-08-01
`,
  );
  assert.match(err, /^List prices of 2026-08-01 are estimates\. Source: the catalogue of SkyPilot/);
});

test('without a type every generation is listed, slices of v2 and v3 on their own', async () => {
  const { out } = await prices([]);
  for (const name of ['v2 ', 'v2 slice', 'v3 ', 'v3 slice', 'v4', 'v5e', 'v5p', 'v6e'])
    assert.match(out, new RegExp(`^${name}`, 'm'));
  const narrow = await prices(['v6e'], [], 50);
  assert.ok(narrow.out.split('\n').every((line) => line.length <= 50));
});

suite('an own price', () => {
  const own: readonly OwnPrice[] = [
    { accelerator: 'v6e', zone: 'us-east5-*', pricing: 'spot', usdPerChipHour: 0.5 },
    { flavor: '8xH100', usdPerChipHour: 2.1 },
    { host: 'localhost', usdPerHour: 0.4, since: '2026-09-01' },
  ];

  test('comes first and replaces the list price', async () => {
    const { out } = await prices(['v6e-8', '--zone', 'us-east5'], own);
    assert.deepEqual(out.trimEnd().split('\n').slice(1), [
      'v6e-8        us-east5-*  spot            $0.5000     $4.00  your settings',
      'v6e-8        us-east5    ondemand        $2.7000    $21.60  list price of 2026-08-01',
    ]);
  });

  test('that begins later replaces the list price today, and of two equal ones the later in the file is listed', async () => {
    const later = { accelerator: 'v6e', since: '2099-01-01' };
    const { out } = await prices(
      ['v6e-8', '--zone', 'us-east5'],
      [
        { ...later, usdPerChipHour: 2 },
        { ...later, usdPerChipHour: 0.5 },
      ],
    );
    assert.deepEqual(out.trimEnd().split('\n').slice(1), [
      'v6e-8        any       any            $0.5000     $4.00  your settings, from 1 Jan 2099',
    ]);
  });

  test('of a flavor or a machine is listed by its name', async () => {
    const { out } = await prices(['8xH100', 'localhost'], own);
    assert.match(out, /^flavor 8xH100 {6}any {7}any {12}\$2\.1000 {9}- {2}your settings$/m);
    assert.match(out, /^machine localhost .* \$0\.40 {2}your settings, since 1 Sep$/m);
  });

  test('is an object for programs', async () => {
    const { out } = await prices(['v6e-8', '--zone', 'us-east5', '--json'], own);
    const [first, second] = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(first, {
      accelerator: 'v6e-8',
      slice: false,
      flavor: null,
      host: null,
      zone: 'us-east5-*',
      region: null,
      pricing: 'spot',
      pricePerChipHourUsd: 0.5,
      pricePerHourUsd: 4,
      source: 'settings',
      pricesOf: 'settings',
      sinceAt: null,
    });
    assert.equal(second?.['region'], 'us-east5');
    assert.equal(second['pricesOf'], '2026-08-01');
  });
});

test('all unknown names are refused at once, with their corrections', async () => {
  const { code, out, err } = await prices(['v5e-16', 'v6ee', '\u001b[2J']);
  assert.equal(code, 3);
  assert.equal(out, '');
  assert.match(err, /"v5e-16" is not an accelerator type, .* Did you mean v5litepod-16\?/);
  assert.match(err, /"v6ee" is not an accelerator type, .* Did you mean v6e\?/);
  assert.ok(!err.includes('\u001b[2J'));
});

test('a zone without prices is a note', async () => {
  const { code, out, err } = await prices(['v6e', '--zone', 'us-est5-b']);
  assert.deepEqual([code, out], [0, '']);
  assert.match(err, /^No price is known in us-est5-b\. Did you mean us-east5-b\?/);
});
