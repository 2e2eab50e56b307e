// A worker reboots by its own command: permissions, and the emulator's reaction.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { writePrograms } from '../../src/emulator/hosts/programs.ts';
import { onReboot, rebootFile } from '../../src/emulator/hosts/reboot.ts';
import type { NodeRecord, WorkerRecord } from '../../src/emulator/world/records.ts';
import { eventually } from '../support/eventually.ts';
import { type EmulatorFixture, waitForHosts, minutes, startTestEmulator } from './test-emulator.ts';
import { temporaryFolder } from '../support/folder.ts';

function folderFor(t: TestContext): string {
  const folder = temporaryFolder(t);
  return folder;
}

async function workers(cloud: EmulatorFixture): Promise<readonly WorkerRecord[]> {
  const reply = await fetch(`${cloud.emulator.url}/emulator/state`);
  return ((await reply.json()) as { nodes: [NodeRecord] }).nodes[0].workers;
}

/** The folder of a worker of the only node. */
function hostFolder(cloud: EmulatorFixture, worker: number): string {
  const hosts = join(cloud.stateDir, 'hosts');
  return join(hosts, readdirSync(hosts)[0] ?? '', String(worker));
}

const bootIdOf = (cloud: EmulatorFixture, worker: number): string =>
  readFileSync(join(hostFolder(cloud, worker), 'boot_id'), 'utf8');

test('only root or sudo reboots a worker; other power commands are refused', (t) => {
  const folder = folderFor(t);
  const host = join(folder, 'host');
  mkdirSync(host);
  const programs = writePrograms(folder);
  const answers = (command: string, uid: number): readonly [asked: boolean, code: number | null, message: string] => {
    rmSync(join(host, rebootFile), { force: true });
    const id = join(programs, 'id');
    writeFileSync(id, `#!/bin/sh\necho ${uid}\n`, { mode: 0o755 });
    const env = { PATH: [programs, '/usr/bin', '/bin'].join(delimiter), EMULATOR_HOST: host };
    const { status, stderr } = spawnSync('/bin/sh', ['-c', command], { env, encoding: 'utf8' });
    return [existsSync(join(host, rebootFile)), status, stderr];
  };
  const done = [true, 0, ''];
  for (const command of ['reboot', 'systemctl reboot', 'systemctl --force reboot', 'shutdown -r now']) {
    assert.deepEqual(answers(command, 0), done, command);
    assert.deepEqual(answers(`sudo -n ${command}`, 1000), done, command);
    assert.deepEqual(answers(`sudo -u root -- sh -c '${command}'`, 1000), done, command);
    const refused = [false, 1, 'Call to Reboot failed: Interactive authentication required.\n'];
    for (const [how, uid] of [
      [command, 1000],
      [`sudo -u nobody ${command}`, 0],
      [`sudo --user=nobody ${command}`, 0],
      [`sudo -unobody ${command}`, 0],
    ] as const) {
      assert.deepEqual(answers(how, uid), refused, how);
    }
  }
  for (const command of [
    'shutdown now',
    'shutdown -r +5',
    'shutdown -h now',
    'poweroff',
    'systemctl halt',
    'reboot -p',
  ]) {
    const [asked, code, message] = answers(command, 0);
    assert.deepEqual([asked, code], [false, 1], command);
    assert.match(message, /only (an immediate )?reboot/, command);
  }
});

test('a request is handled once, also one that was made while no emulator ran', async (t) => {
  const folder = folderFor(t);
  let calls = 0;
  const stop = onReboot(folder, 1, () => (calls += 1));
  writeFileSync(join(folder, 'something'), '');
  writeFileSync(join(folder, rebootFile), '');
  writeFileSync(join(folder, rebootFile), '');
  assert.ok(await eventually(() => calls > 0));
  stop();
  assert.equal(calls, 1);
  const stopLater = onReboot(folder, 1, () => (calls += 1));
  assert.ok(await eventually(() => calls > 1));
  stopLater();
  onReboot(folder, 0, () => (calls += 1))();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(calls, 2, 'a stopped watch calls nothing');
});

test('a rebooting worker is down for a while and returns with a new boot; its node stays READY', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createNode('n1', { acceleratorType: 'v4-16' });
  cloud.clock.advance(minutes(3));
  await waitForHosts(cloud);
  await cloud.admin('fill-disk', 'n1/1');
  const before = [0, 1].map((worker) => bootIdOf(cloud, worker));
  writeFileSync(join(hostFolder(cloud, 1), rebootFile), '');
  assert.ok(await eventually(async () => (await workers(cloud))[1]?.rebooting));
  await waitForHosts(cloud);
  assert.equal(await cloud.nodeState('n1'), 'READY');
  assert.equal(bootIdOf(cloud, 1), before[1], 'the worker is not up before its time');
  cloud.clock.advance(minutes(1));
  await waitForHosts(cloud);
  const [first, second] = await workers(cloud);
  assert.deepEqual([first?.boot, second?.boot, second?.rebooting], [1, 2, false]);
  assert.equal(second?.diskFull, true, 'a reboot keeps the disk full');
  assert.equal(bootIdOf(cloud, 0), before[0]);
  assert.notEqual(bootIdOf(cloud, 1), before[1]);
  assert.equal(existsSync(join(hostFolder(cloud, 1), rebootFile)), false);
});

test('start-host on a rebooting worker does not wait, and the worker boots once', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createNode('n1');
  cloud.clock.advance(minutes(3));
  await waitForHosts(cloud);
  writeFileSync(join(hostFolder(cloud, 0), rebootFile), '');
  assert.ok(await eventually(async () => (await workers(cloud))[0]?.rebooting));
  await cloud.admin('start-host', 'n1');
  const started = bootIdOf(cloud, 0);
  cloud.clock.advance(minutes(2));
  await waitForHosts(cloud);
  const [worker] = await workers(cloud);
  assert.deepEqual([worker?.boot, worker?.rebooting], [2, false]);
  assert.equal(bootIdOf(cloud, 0), started);
});
