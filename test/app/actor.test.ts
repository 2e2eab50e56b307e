// The actor of a local process: by login, by a requested user, by the owner of the home.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSharedLogin, mayBe, resolveActor } from '../../src/app/actor.ts';
import { nameInHistory, owns } from '../../src/core/model/user.ts';
import type { User } from '../../src/core/model/user.ts';

function aUser(name: string, changes: Partial<User> = {}): User {
  return { name, role: 'member', logins: [], ...changes };
}

const ada = aUser('ada', { logins: ['ada1', 'adal'] });
const bob = aUser('bob');
const zoé = aUser('zoé', { role: 'viewer' });
// A login of xibo is also the name of another user.
const xibo = aUser('xibo', { logins: ['lyy', 'xb'] });
const lyy = aUser('lyy', { role: 'admin' });
const users = [ada, bob, zoé, xibo, lyy];

const actor = (login: string, requested: string | null = null, isHomeOwner = false) =>
  resolveActor({ login, isHomeOwner }, requested, users);

test('without registered users the login is the user, and an admin of the own home only', () => {
  const alone = (isHomeOwner: boolean) => resolveActor({ login: 'eve', isHomeOwner }, null, []);
  assert.deepEqual(alone(true), { user: 'eve', role: 'admin', via: 'local', logins: ['eve'], login: 'eve' });
  assert.equal(alone(false).role, 'member');
});

test('a login is the user who has it, then the user with its name, then itself', () => {
  const member = { role: 'member', via: 'local' };
  assert.deepEqual(actor('ada1'), { user: 'ada', ...member, logins: ['ada1', 'adal'], login: 'ada1' });
  assert.deepEqual(actor('bob'), { user: 'bob', ...member, logins: ['bob'], login: 'bob' });
  assert.equal(actor('lyy').user, 'xibo');
  assert.deepEqual(actor('lab'), { user: 'lab', ...member, logins: ['lab'], login: 'lab' });
});

test('on a shared login the requested user is the actor, and keeps the jobs of the login', () => {
  assert.deepEqual(actor('lab', 'bob'), {
    user: 'bob',
    role: 'member',
    via: 'local',
    logins: ['lab'],
    login: 'lab',
    otherLogin: 'lab',
  });
  assert.equal(actor('lab', 'zoe\u0301').user, 'zoé', 'in any Unicode form');
  assert.equal(actor('lab', 'zoé').role, 'viewer');
  assert.equal(actor('lab', 'ada').user, 'lab', 'a user with logins accepts only these');
  for (const unknown of ['unknown', '']) assert.equal(actor('lab', unknown).user, 'lab');
});

test('the history names a login that is not known to be of the user, unless it owns the home', () => {
  const name = (...given: Parameters<typeof actor>) => nameInHistory(actor(...given));
  assert.equal(name('nbob', 'bob'), 'bob (login nbob)');
  assert.equal(name('nbob', 'bob', true), 'bob', 'the login that people of the lab share');
  assert.deepEqual([name('ada1'), name('bob'), name('nbob')], ['ada', 'bob', 'nbob']);
});

test("one user's login is never another user, whatever is requested", () => {
  for (const requested of ['bob', 'zoé', 'xibo', 'ada']) assert.equal(actor('ada1', requested).user, 'ada');
  assert.equal(actor('bob', 'zoé').user, 'bob');
  assert.equal(actor('lyy', 'lyy').user, 'xibo');
});

test('the owner of the home is an admin, but not in the name of another user', () => {
  assert.equal(actor('ada1', null, true).role, 'admin');
  assert.equal(actor('ada1', 'ada', true).role, 'admin');
  assert.equal(actor('lab', null, true).role, 'admin');
  assert.equal(actor('lab', 'bob', true).role, 'member');
  assert.equal(actor('lab', 'ada', true).role, 'admin', 'a request that does not count changes nothing');
});

test('the jobs of a registered user are not those of a login with the same name', () => {
  assert.deepEqual(actor('xb').logins, ['xb']);
  assert.equal(owns(actor('lyy'), 'lyy'), false);
  assert.equal(owns(actor('lab', 'bob'), 'bob'), true);
});

test('a shared login is never an admin, and a disabled user is refused, except the owner of the home', () => {
  assert.equal(actor('lab', 'lyy').user, 'lab');
  const disabled = [aUser('ada', { logins: ['ada1'], isDisabled: true }), aUser('bob', { isDisabled: true })];
  const isDisabled = (...[login, requested, isHomeOwner = false]: readonly [string, string | null, boolean?]) =>
    resolveActor({ login, isHomeOwner }, requested, disabled).isDisabled ?? false;
  assert.deepEqual([isDisabled('ada1', null), isDisabled('lab', 'bob'), isDisabled('bob', null)], [true, true, true]);
  assert.deepEqual(
    [isDisabled('lab', null), isDisabled('ada1', null, true), isDisabled('lab', 'bob', true)],
    [false, false, true],
  );
});

test('the actor of a request is the requested user exactly if the login may be that user', () => {
  for (const login of ['ada', 'ada1', 'bob', 'xb', 'lyy', 'lab', 'root']) {
    for (const user of users) {
      assert.equal(actor(login, user.name).user === user.name, mayBe(login, user, users), `${login} as ${user.name}`);
    }
  }
  assert.deepEqual(
    ['ada', 'ada1', 'bob', 'xb', 'lyy', 'lab', 'root'].filter((login) => isSharedLogin(login, users)),
    ['lab', 'root'],
  );
});
