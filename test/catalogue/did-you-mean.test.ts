import assert from 'node:assert/strict';
import { test } from 'node:test';
import { didYouMean } from '../../src/catalogue/did-you-mean.ts';

const keys = ['accelerator', 'zone', 'name', 'pricing', 'runtime_version', 'checkpoint_dir', 'on_finish'];

test('a typing error gets a suggestion', () => {
  assert.equal(didYouMean('acelerator', keys), 'accelerator');
  assert.equal(didYouMean('acceleratro', keys), 'accelerator');
  assert.equal(didYouMean('zoen', keys), 'zone');
  assert.equal(didYouMean('Zone', keys), 'zone');
  assert.equal(didYouMean('runtime-version', keys), 'runtime_version');
});

test('a prefix of exactly one candidate is enough', () => {
  assert.equal(didYouMean('checkpoint', keys), 'checkpoint_dir');
  assert.equal(didYouMean('lis', ['list', 'listen']), 'list');
  assert.equal(didYouMean('run', ['running', 'runner']), undefined);
});

test('a name that is similar to none gets no suggestion', () => {
  assert.equal(didYouMean('banana', keys), undefined);
  assert.equal(didYouMean('', keys), undefined);
  assert.equal(didYouMean('x', ['y']), undefined);
  assert.equal(didYouMean('lr', ['ls', 'l']), undefined);
  assert.equal(didYouMean('zone', []), undefined);
});
