// Who types, and for whom: by TPU_USER, by the login, or nobody can tell.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import { actor, actsForAnother, me } from '../../src/lab/people.ts';
import { aUser } from './sample.ts';

const users = [aUser('xibo', { logins: ['lyy', 'xb'] }), aUser('lyy'), aUser('root')].map((user, id) => ({
  ...user,
  id,
}));
const name = (login: string, said?: string) =>
  me({ env: said === undefined ? {} : { TPU_USER: said }, login }, users)?.name ?? null;

test('the variable comes first, then who has the login, then who is called like it', () => {
  assert.equal(name('xb', 'lyy'), 'lyy');
  assert.equal(name('xb'), 'xibo');
  assert.equal(name('lyy'), 'xibo');
  assert.equal(name('root', ''), 'root');
  assert.equal(name('shared'), null);
  assert.throws(
    () => name('xb', 'xbo'),
    (error) => error instanceof JobmanError && error.code === 3 && /TPU_USER.*Did you mean "xibo"/.test(error.message),
  );
});

test('on a shared login nobody acts for another, and the history names whom the line names', () => {
  const [xibo = null] = users;
  assert.equal(actsForAnother(xibo, 'lyy'), true);
  assert.equal(actsForAnother(xibo, 'xibo'), false);
  assert.equal(actsForAnother(null, 'lyy'), false);
  assert.equal(actor(xibo, 'lyy'), 'xibo');
  assert.equal(actor(null, 'lyy'), 'lyy');
});
