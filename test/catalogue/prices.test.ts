import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pricePerHour } from '../../src/catalogue/prices.ts';

test('a price is per chip, and slices of the old generations have their own price', () => {
  const spot = { zone: 'us-central1-a', pricing: 'spot' } as const;
  assert.equal(pricePerHour({ ...spot, accelerator: 'v2-8' }), 4 * 0.3375);
  assert.equal(pricePerHour({ ...spot, accelerator: 'v2-32' }), 16 * 0.3825);
  assert.equal(pricePerHour({ ...spot, accelerator: 'v6e-8', nodeCount: 2 }), 16 * 0.5442);
  assert.equal(pricePerHour({ ...spot, accelerator: 'v6e-8', pricing: 'preemptible' }), 8 * 0.5442);
  for (const pricing of ['ondemand', 'reserved'] as const) {
    assert.equal(pricePerHour({ ...spot, accelerator: 'v6e-8', pricing }), 8 * 2.7);
  }
});

test('a price that the catalogue does not have is unknown', () => {
  assert.equal(pricePerHour({ accelerator: 'v6e-8', zone: 'mars-1-a', pricing: 'spot' }), null);
  assert.equal(pricePerHour({ accelerator: 'v9-8', zone: 'us-central1-a', pricing: 'spot' }), null);
});
