import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { pricePerHour } from '../../src/catalogue/prices.ts';
import { priceOf, type OwnPrice, type PriceQuery } from '../../src/reports/prices.ts';

const slice: PriceQuery = { accelerator: 'v6e-8', zone: 'us-east5-b', pricing: 'spot' };
const usd = (own: readonly OwnPrice[], query: PriceQuery = slice) => priceOf(own, query)?.usdPerHour ?? null;

test('without an own price, the catalogue applies, with the date of its table', () => {
  const usdPerHour = pricePerHour({ accelerator: 'v6e-8', zone: 'us-east5-b', pricing: 'spot', nodeCount: 2 });
  assert.deepEqual(priceOf([], { ...slice, count: 2 }), { usdPerHour, pricesOf: '2026-08-01' });
  assert.equal(priceOf([{ accelerator: 'v5e', usdPerHour: 1 }], slice)?.pricesOf, '2026-08-01');
  assert.equal(priceOf([], { ...slice, zone: 'mars-1-a' }), null);
  assert.equal(priceOf([], { flavor: 'a100' }), null);
  assert.equal(priceOf([], { host: 'localhost' }), null);
});

suite('an own price', () => {
  test('is for a type, a generation or a pattern, in a zone and with a pricing', () => {
    assert.deepEqual(priceOf([{ accelerator: 'v6e-8', usdPerHour: 3 }], { ...slice, count: 2 }), {
      usdPerHour: 6,
      pricesOf: 'settings',
    });
    assert.equal(usd([{ accelerator: 'v6e', usdPerChipHour: 0.5 }]), 4);
    assert.equal(usd([{ accelerator: 'v6*', zone: 'us-*', pricing: 'spot', usdPerHour: 3 }]), 3);
    const other = { accelerator: 'v6e-8', zone: 'europe-*', usdPerHour: 3 };
    assert.equal(priceOf([other], slice)?.pricesOf, '2026-08-01');
  });

  test('for a flavor or a machine needs the number of GPUs if it is per GPU', () => {
    assert.equal(usd([{ flavor: 'a100', usdPerHour: 2 }], { flavor: 'a100', count: 4 }), 8);
    assert.equal(usd([{ flavor: 'a100', usdPerChipHour: 2 }], { flavor: 'a100', chips: 8 }), 16);
    assert.equal(usd([{ flavor: 'a100', usdPerChipHour: 2 }], { flavor: 'a100' }), null);
    assert.equal(usd([{ host: 'gpu1', usdPerHour: 2 }], { host: 'gpu1' }), 2);
    assert.equal(usd([{ host: 'gpu1', usdPerHour: 2 }], { host: 'gpu2' }), null);
  });

  test('may be 0', () => assert.equal(usd([{ accelerator: 'v6e', usdPerHour: 0 }]), 0));

  test('of several, the most specific applies, then the newest, then the last in the file', () => {
    const general = { accelerator: 'v6e', usdPerHour: 1 };
    const zonal = { accelerator: 'v6e', zone: 'us-east5-b', usdPerHour: 2 };
    const exact = { accelerator: 'v6e-8', usdPerHour: 3 };
    assert.equal(usd([exact, zonal, general]), 3);
    assert.equal(usd([zonal, general]), 2);
    assert.equal(usd([general, { ...general, usdPerHour: 7 }]), 7);
    assert.equal(
      usd([
        { ...general, since: '2026-10-01', usdPerHour: 9 },
        { ...general, since: '2026-09-01' },
      ]),
      9,
    );
  });

  test('applies from its first `since`; the usage before it is not priced', () => {
    const own: readonly OwnPrice[] = [
      { accelerator: 'v6e', usdPerHour: 5, since: '2026-10-01T12:00:00Z' },
      { accelerator: 'v6e', usdPerHour: 4, since: '2026-09-01' },
    ];
    const at = (time: string) => usd(own, { ...slice, at: Date.parse(time) });
    assert.equal(at('2026-08-31T23:59:59Z'), null);
    assert.equal(at('2026-09-01T00:00:00Z'), 4);
    assert.equal(at('2026-10-01T11:59:59Z'), 4);
    assert.equal(at('2026-10-01T12:00:00Z'), 5);
  });
});
