/** The steps that S0 and S2 run with `python -m`, on a job with kept workers: the image again, the command again. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasDocker, openRegistry } from '../setup/dockerd.ts';
import { busyboxImage } from '../setup/image.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openJobWorld } from '../support/jobs.ts';

const minute = 60_000;

test('python -m runs a docker job’s image and command again on its workers', { timeout: 8 * minute }, async (t) => {
  if (!requireReal(t, 'python3, and docker as root', hasDocker() && findProgram('python3'))) return;
  const world = openJobWorld(t);
  const run = (...argv: readonly string[]) => world.jobman(argv, { withinMs: 4 * minute });
  // The registry is in this process, so nothing here may block.
  const python = (...argv: readonly string[]): Promise<{ readonly code: number | null; readonly output: string }> =>
    new Promise((resolve, reject) => {
      const env = { ...world.env, PYTHONPATH: join(root, 'python'), PYTHONDONTWRITEBYTECODE: '1' };
      const child = spawn('python3', ['-m', ...argv], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      let output = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text) => (output += text));
      child.on('error', reject);
      child.on('close', (code) => resolve({ code, output }));
    });

  const image = `${await openRegistry(world, busyboxImage(world, 'flock'))}/lab/box:1`;
  const manifest = join(world.folder, 'job.yaml');
  writeFileSync(
    manifest,
    `job: {name: boxed, env_type: docker, on_finish: keep}\n` +
      `tpu: {project: emulator, accelerator: v4-8, zone: us-central2-b, pricing: ondemand}\n` +
      `docker: {image: "${image}", flags: ["--network=host"]}\ncommand: {run: "echo in the box"}\n`,
  );
  assert.equal((await run('create', manifest, '--quiet')).code, 0);
  const waited = await run('wait', '1');
  assert.equal(waited.code, 0, waited.stderr + (await run('why', '1')).stdout);

  const holds = await python('jobman.envs.docker', '1');
  assert.deepEqual(holds, { code: 0, output: 'Step docker is applied on 1 worker of job 000001.\n' });
  const pulled = await python('jobman.envs.docker', '1', '--force');
  assert.equal(pulled.code, 0, pulled.output);
  assert.match((await run('logs', '1', '--step', 'docker')).stdout, /lab\/box/);

  const again = await python('jobman.job', '1', '--cmd-only');
  assert.equal(again.code, 0, again.output);
  for (const attempt of ['1', '2'])
    assert.equal((await run('logs', '1', '--attempt', attempt)).stdout, '[0] in the box\n');
  assert.equal((await run('delete', '1', '--yes', '--quiet')).code, 0);
});
