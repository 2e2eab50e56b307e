/** The module ssh on the TPU emulator, with OpenSSH's client: workers reach each other with the configured keys. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openJobWorld } from '../support/jobs.ts';

test('both layouts of keys let workers log in to each other, and a second run changes nothing', async (t) => {
  if (!requireReal(t, 'ssh and ssh-keygen', findProgram('ssh') && findProgram('ssh-keygen'))) return;
  const world = openJobWorld(t);
  const key = join(world.folder, 'id_siblings');
  assert.equal(spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]).status, 0);
  await world.output('emulator', 'start');
  const endpoint = readFileSync(join(world.home, 'emulator/endpoint.json'), 'utf8');
  const { sshPort } = JSON.parse(endpoint) as { readonly sshPort: number };
  const capacity = 'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b, pricing: ondemand}';
  const layouts = [
    // The older layout: one key pair for the workers.
    `ssh: {tpu_private_key: ${key}, tpu_public_key: ${key}.pub}`,
    // The newer layout: identities, each with its lines of ssh_config.
    `ssh:
  private_key: ${key}
  identities:
    - private_key: ${key}
      public_key: ${key}.pub
      config_entry: |
        Host 127.*
          IdentityFile ~/.ssh/id_siblings
          IdentitiesOnly yes
          Port ${sshPort}
          StrictHostKeyChecking accept-new
`,
  ];
  for (const [index, ssh] of layouts.entries()) {
    const id = String(index + 1);
    const manifest = join(world.folder, `job-${id}.yaml`);
    writeFileSync(manifest, `job: {name: siblings-${id}}\n${capacity}\n${ssh}\ncommand: {run: exec sleep 1000}\n`);
    await world.output('create', manifest);
    const isRunning = async () => (await world.output('list', '--phase', 'running')).includes(`siblings-${id}`);
    assert.ok(await eventually(isRunning, { withinMs: 60_000 }));
    const shown = JSON.parse(await world.output('show', id, '--json')) as {
      readonly allocations: readonly { readonly workers: readonly { readonly internalIp: string }[] }[];
    };
    const addresses = shown.allocations.at(-1)?.workers.map(({ internalIp }) => internalIp) ?? [];
    assert.equal(addresses.length, 2);
    // The older layout's config is for Google's networks (10.*), so the test passes the options on the command line.
    const program =
      index === 0
        ? `-p ${sshPort} -i ~/.ssh/id_siblings -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new`
        : '';
    for (const [from, to] of [
      [0, 1],
      [1, 0],
    ] as const) {
      const command = `ssh -o BatchMode=yes ${program} ${addresses[to]} hostname`;
      const name = (await world.output('exec', id, '--workers', String(from), '--', command)).trim();
      assert.match(name, new RegExp(`-w-${to}$`));
    }
    const files =
      "cd ~/.ssh && stat -c '%a %n' id_siblings id_siblings.pub authorized_keys config jobman_config && cat authorized_keys config jobman_config";
    const before = await world.output('exec', id, '--workers', '0', '--', files);
    assert.match(
      before,
      /^600 id_siblings\n644 id_siblings\.pub\n600 authorized_keys\n600 config\n600 jobman_config\n/,
    );
    const again = await world.jobman(['setup', id, 'ssh', '--force']);
    assert.deepEqual([again.code, again.stderr], [0, `Step ssh is applied on 2 workers of job 00000${id}.\n`]);
    assert.equal(await world.output('exec', id, '--workers', '0', '--', files), before);
  }
  // A missing key is reported before any connection.
  const manifest = join(world.folder, 'missing.yaml');
  writeFileSync(manifest, `${capacity}\nssh: {private_key: ${key}-none}\ncommand: {run: ls}\n`);
  await world.runRefused(2, /ssh\.private_key: the key file .*-none does not exist/, ['create', manifest]);
});
