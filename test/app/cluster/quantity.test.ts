/** Amounts as Kubernetes writes them, in exact arithmetic. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  addQuantities,
  compareQuantities,
  isWholeQuantity,
  parseQuantity,
  quantityKey,
  quantityNumber,
  formatQuantity,
  zero,
  type Quantity,
} from '../../../src/app/cluster/quantity.ts';

function quantity(text: string | number): Quantity {
  const found = parseQuantity(text);
  assert.ok(found !== undefined, `${text} is an amount`);
  return found;
}

suite('two notations of one amount', () => {
  const same: readonly (readonly [string | number, string | number])[] = [
    ['1', '1000m'],
    [1, '1000m'],
    ['0.1', '100m'],
    ['.5', '500m'],
    ['5.', '5'],
    ['1k', '1e3'],
    ['1E3', '1k'],
    ['1E', '1e18'],
    ['1G', '1000M'],
    ['1Gi', '1024Mi'],
    ['1Gi', '1073741824'],
    ['1.5Gi', '1536Mi'],
    ['1n', '0.000000001'],
    ['1u', '1000n'],
    ['+2', '2'],
    ['1Ei', '1152921504606846976'],
    ['12e-1', '1200m'],
    ['-1', '-1000m'],
  ];
  for (const [one, other] of same) {
    test(`${one} is ${other}`, () => assert.equal(quantityKey(one), quantityKey(other)));
  }
});

suite('the order of two amounts', () => {
  for (const [less, more] of [
    ['1G', '1Gi'],
    ['999m', '1'],
    ['1023Mi', '1Gi'],
    ['9007199254740992', '9007199254740993'],
    ['-1', '0'],
    ['1n', '1u'],
  ] as const) {
    test(`${less} < ${more}`, () => {
      assert.equal(compareQuantities(quantity(less), quantity(more)), -1);
      assert.equal(compareQuantities(quantity(more), quantity(less)), 1);
      assert.notEqual(quantityKey(less), quantityKey(more));
    });
  }
});

suite('the canonical text of', () => {
  for (const [written, canonical] of [
    ['1000m', '1'],
    ['1500m', '1500m'],
    ['0.5', '500m'],
    ['1000', '1k'],
    ['1048576Ki', '1Gi'],
    ['1.5Gi', '1536Mi'],
    ['0.5Mi', '512Ki'],
    ['0.3Ki', '307200m'],
    ['0', '0'],
    ['0Gi', '0'],
    ['2048', '2048'],
    ['1e19', '10E'],
    ['2048Ei', '2048Ei'],
    ['-1500m', '-1500m'],
    // The API server rounds finer amounts away from zero.
    ['0.1n', '1n'],
    ['-0.1n', '-1n'],
  ] as const) {
    test(`${written} is ${canonical}`, () => assert.equal(formatQuantity(quantity(written)), canonical));
  }
});

test('an invalid amount is undefined', () => {
  for (const text of ['', ' ', '1 G', ...'x 1x 1g 1GB 1KI 1e 1e1.5 --1 . 1.2.3 1e9999 NaN'.split(' ')]) {
    assert.equal(parseQuantity(text), undefined, text);
  }
});

test('ten tenths are one, and sums keep powers of two', () => {
  const tenth = quantity('0.1');
  const sum = Array.from({ length: 10 }).reduce<Quantity>((total) => addQuantities(total, tenth), zero);
  assert.equal(formatQuantity(sum), '1');
  assert.equal(formatQuantity(addQuantities(quantity('1Gi'), quantity('1Gi'))), '2Gi');
  assert.equal(isWholeQuantity(quantity('1500m')), false);
  assert.equal(isWholeQuantity(quantity('2000m')), true);
  assert.equal(quantityNumber(quantity('1500m')), 1.5);
});

test('the canonical text of any amount gives the same amount and text', () => {
  const suffix = fc.constantFrom('', ...'n u m k M G T P E Ki Mi Gi Ti Pi Ei e3'.split(' '));
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 20n }), fc.nat({ max: 999_999 }), suffix, (whole, part, unit) => {
      const first = quantity(`${whole}.${part}${unit}`);
      const text = formatQuantity(first);
      assert.equal(compareQuantities(quantity(text), first), 0);
      assert.equal(formatQuantity(quantity(text)), text);
    }),
    { numRuns: 300 },
  );
});

test('sums do not depend on their order', () => {
  const amount = fc.tuple(fc.nat(), fc.constantFrom('', 'm', 'k', 'Ki', 'Mi', 'n')).map(([n, unit]) => `${n}${unit}`);
  fc.assert(
    fc.property(fc.array(amount, { maxLength: 8 }), (amounts) => {
      const sum = (list: readonly string[]) => list.reduce((total, one) => addQuantities(total, quantity(one)), zero);
      assert.equal(formatQuantity(sum(amounts)), formatQuantity(sum(amounts.toReversed())));
    }),
    { numRuns: 200 },
  );
});
