// The user service of the controller, as systemd reads it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Io } from '../../src/app/services.ts';
import { unitText } from '../../src/wiring/install.ts';

test('odd characters in paths mean themselves', () => {
  const io = { launcher: ['/opt/50% "off"/$n\\ode'], env: { PATH: '/bin:/$x' } } as unknown as Io;
  const lines = unitText({ io, home: '/home/ada/a $b' }).split('\n');
  const found = lines.filter((line) => /^(ExecStart|Environment)=/.test(line));
  assert.deepEqual(found, [
    String.raw`ExecStart="/opt/50%% \"off\"/$$n\\ode" "controller" "run" "--idle-exit" "never"`,
    'Environment="JOBMAN_HOME=/home/ada/a $b"',
    'Environment="PATH=/bin:/$x"',
  ]);
});
