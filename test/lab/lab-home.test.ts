// Which modes a home has that a group shares, and what in it is nobody's but its login's.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedMode } from '../../src/lab/lab.ts';

const modeOf = (path: string, mode: number, isFolder = false): number | null =>
  sharedMode({ path: path.split('/'), isFolder, mode });

test('folders and files are the group’s, and stay as runnable as they were', () => {
  assert.equal(modeOf('jobs', 0o700, true), 0o2770);
  assert.equal(modeOf('jobs/xibo/000001/logs', 0o755, true), 0o2770);
  assert.equal(modeOf('state.db', 0o600), 0o660);
  assert.equal(modeOf('jobs/xibo/000001/config.yaml', 0o644), 0o660);
  assert.equal(modeOf('jobs/xibo/000001/tool', 0o700), 0o770);
  assert.equal(modeOf('runs/000001/here', 0o700, true), 0o2770);
  assert.equal(modeOf('ssh', 0o700, true), 0o2770);
  assert.equal(modeOf('ssh/id_ed25519.pub', 0o644), 0o660);
  assert.equal(modeOf('ssh/relay.sock', 0o755), 0o770);
  assert.equal(modeOf('ssh/known_hosts/000001-1-0', 0o600), 0o660);
});

test('secrets, keys, runs, copies of working directories and the built-in cloud stay as they are', () => {
  for (const path of [
    'ssh/id_ed25519',
    'secrets',
    'secrets/wandb_api_key',
    'emulator',
    'emulator/endpoint.json',
    'jobs/xibo/000001/secrets',
    'jobs/xibo/000001/secrets/TOKEN',
    'jobs/xibo/000001/workdir/1/files/train.py',
    'runs/000001/here/attempt_1',
  ]) {
    assert.equal(modeOf(path, 0o600), null, path);
  }
  assert.equal(modeOf('jobs/xibo/000001/workdir/1/about.json', 0o600), 0o660);
});
