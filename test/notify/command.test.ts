// A command of the user: facts on standard input and in variables, and bounded time.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { sendToCommand } from '../../src/notify/command.ts';
import { runProcess } from '../../src/remote/process.ts';
import { openWorld } from '../support/world.ts';
import { aMessage, aNotice } from './messages.ts';

function contextIn(t: TestContext) {
  const { folder, env } = openWorld(t);
  return { env, userHome: folder, folder, run: runProcess };
}

test('gets JSON on its standard input and facts in variables, which no shell interprets', async (t) => {
  const context = contextIn(t);
  const hostile = '$(touch hacked); `touch hacked` \u0000 "\n\'';
  const message = aMessage([aNotice({ name: 'x;touch${IFS}hacked', message: hostile })]);
  const command = 'cat > input; printenv > variables; ls > files';
  const result = await sendToCommand(command, message, context);
  assert.deepEqual(result, { kind: 'sent', detail: 'exit code 0' });
  const { events } = JSON.parse(readFileSync(join(context.folder, 'input'), 'utf8')) as {
    events: { message: string }[];
  };
  assert.equal(events[0]?.message, hostile);
  const variables = readFileSync(join(context.folder, 'variables'), 'utf8');
  for (const line of [
    'JOBMAN_NOTIFY_EVENT=preempted',
    'JOBMAN_NOTIFY_JOB=000042',
    'JOBMAN_NOTIFY_NAME=x;touch${IFS}hacked',
    'JOBMAN_NOTIFY_OWNER=ada',
    'JOBMAN_NOTIFY_ID=jobman-abc123-7',
    'JOBMAN_NOTIFY_COUNT=1',
  ])
    assert.ok(variables.split('\n').includes(line), line);
  assert.doesNotMatch(readFileSync(join(context.folder, 'files'), 'utf8'), /hacked/);
});

test('that fails is reported with its exit code and the end of its output', async (t) => {
  const result = await sendToCommand('echo "no such group" >&2; exit 3', aMessage(), contextIn(t));
  assert.deepEqual(result, { kind: 'failed', error: 'exit code 3: no such group' });
});

test('that does not end is killed with its children', { timeout: 20_000 }, async (t) => {
  const context = contextIn(t);
  const result = await sendToCommand('sleep 600 & sleep 600', aMessage(), context, 300);
  assert.deepEqual(result, { kind: 'failed', error: 'it did not end within 0.3 s and was killed' });
});

test('need not read its input', async (t) => {
  const long = aMessage(Array.from({ length: 200 }, () => aNotice({ message: 'x'.repeat(5_000) })));
  assert.equal((await sendToCommand('exit 0', long, contextIn(t))).kind, 'sent');
});
