// `jobman user`, `token` and `audit` as a whole: arguments, the database, standard output and standard error.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

/** Each line is one object. */
function objects(stdout: string): readonly Record<string, unknown>[] {
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

test('an admin adds users and gives them tokens and limits, and the audit log has it', async (t) => {
  const world = openWorld(t);
  const run = async (argv: readonly string[], code = 0, env: Readonly<Record<string, string>> = {}) => {
    const result = await jobman({ ...world, env: { ...world.env, ...env } }, argv);
    assert.equal(result.code, code, `${argv.join(' ')}: ${result.stderr}`);
    return result;
  };
  const asAda = { TPU_USER: 'ada' };

  const fresh = { JOBMAN_HOME: join(world.folder, 'fresh') };
  const first = await run(['token', 'create'], 0, fresh);
  assert.match(first.stdout, /^jobman_[0-9A-Za-z]{38}\n$/);
  assert.match(first.stderr, /^Registered the user \S+ as admin\.\nCreated the token tok_\w+ of /);
  assert.match((await run(['user'], 0, fresh)).stdout, /^USER .*\n\S+ +admin /);
  await run(['user', 'add', 'ada']);
  assert.match((await run(['token', 'create'], 3)).stderr, /An admin adds users: jobman user add \S+ --role admin\n/);
  assert.match((await run(['user', 'add', 'Ada'], 4)).stderr, /too similar to the user ada/);
  assert.match((await run(['user', 'add', 'a\u0007'], 2)).stderr, /"a\\u\{7\}" is not allowed as a user name/);
  const [{ role = null, message = null } = {}] = objects(
    (await run(['user', 'role', 'ada', 'viewer', '--json'])).stdout,
  );
  assert.deepEqual([role, message], ['viewer', 'ada is now viewer, from the next request on.']);
  await run(['user', 'role', 'ada', 'king'], 2);
  await run(['user', 'role', 'ada', 'member']);
  const mistakes = (await run(['user', 'limit', 'ada', 'chips=x', 'jbos=1'], 2)).stderr;
  assert.match(mistakes, /chips=x: expected a whole number, or none/);
  assert.match(mistakes, /jbos=1: .*Did you mean jobs=\?/);
  await run(['user', 'limit', 'ada', 'jobs=1', 'projects=a,b']);
  assert.equal((await run(['user', 'limit', 'ada'])).stdout, 'Limits of ada: 1 job; projects: a, b.\n');
  await run(['user', 'limit', 'ada', 'projects=none']);
  assert.equal((await run(['user', 'limit', 'root', 'none'], 3)).stdout, '');

  const token = (await run(['token', 'create', '--user', 'ada', '--name', 'ci', '--expires', '5d'])).stdout.trim();
  const { stderr: soon } = await run(['token', 'create', '--user', 'ada', '--name', 'soon', '--expires', '1h']);
  assert.match(soon, /expires on \d+ \w+( \d+)? \d\d:\d\d:\d\d UTC\./);
  await run(['token', 'revoke', 'soon', '--user', 'ada']);
  assert.match(
    (await run(['token', 'create', '--expires', '0'], 2)).stderr,
    /valid for 1m to 366d, and not for no time/,
  );
  assert.match((await run(['token', 'create', '--expires', '400d'], 2)).stderr, /and not for 400d/);
  assert.match(
    (await run(['token', 'create', '--role', 'admin'], 4, asAda)).stderr,
    /^jobman: The role of ada is member/,
  );
  assert.match((await run(['user', 'add', 'eve'], 4, asAda)).stderr, /Your role is member, which may not add users/);
  assert.equal(objects((await run(['user', '--json'], 0, asAda)).stdout).length, 1);

  const manifest = join(world.folder, 'train.yaml');
  writeFileSync(manifest, 'job:\n  name: iris\nhosts: [localhost]\ncommand:\n  run: sleep 60\n');
  const create = ['create', manifest];
  assert.equal((await run(['create', manifest, '--dry-run'], 0, asAda)).code, 0);
  await run(create, 0, asAda);
  const refusal = /ada has 1 unfinished job, and 1 is allowed\.\n {2}An admin changes .*: jobman user limit ada/;
  assert.match((await run([...create, '--yes'], 4, asAda)).stderr, refusal);
  assert.match((await run([...create, '--dry-run'], 4, asAda)).stderr, refusal);

  assert.match((await run(['user', 'disable', 'ada'])).stdout, /1 unfinished job of ada continues\./);
  assert.match((await run(['token'], 4, asAda)).stderr, /An admin has disabled the user ada\./);
  await run(['user', 'enable', 'ada']);
  assert.match((await run(['token', 'revoke', 'ci'], 0, asAda)).stdout, /^Revoked the token ci of ada/);
  assert.match((await run(['token', 'revoke', 'ci'], 0, asAda)).stdout, /is already revoked\.\n$/);

  const audit = objects((await run(['audit', '--json'])).stdout);
  assert.ok(!JSON.stringify(audit).includes(token));
  const denied = audit
    .filter(({ outcome }) => outcome === 'denied')
    .map(({ operation, actor }) => `${String(actor)} ${String(operation)}`);
  assert.deepEqual(denied, ['ada tokens', 'ada create', 'ada add-user', 'ada create-token']);
  assert.equal(objects((await run(['audit', '--denied', '--since', '1h', '--json'])).stdout).length, denied.length);
  assert.match(
    (await run(['audit', '--limit', '2'])).stderr,
    /^There are older ones: jobman audit --before \d+, with the same flags\n$/,
  );
  const ofJob = objects((await run(['audit', '--job', '1', '--json'])).stdout);
  assert.deepEqual(
    ofJob.map(({ operation, login }) => [operation, typeof login]),
    [['create', 'string']],
  );
  const own = objects((await run(['audit', '--json'], 0, asAda)).stdout);
  assert.deepEqual([...new Set(own.map(({ actor }) => actor))], ['ada']);
  assert.match((await run(['audit', '--user', 'root'], 4, asAda)).stderr, /may not read the audit log of root/);
  assert.match((await run(['audit'])).stdout, /^ROW +TIME +USER +BY +OUTCOME +OPERATION +OBJECT +DETAIL\n/);
  await run(['cancel', '1'], 0, asAda);
  await run(['controller', 'stop']);
});
