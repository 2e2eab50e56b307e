// The real gcloud, unchanged, as a client of the emulator.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { admin } from '../../src/emulator/admin.ts';
import type { Emulator } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { hasProgram } from './emulator-host.ts';

const zone = 'us-central1-a';

describe(
  'gcloud',
  { skip: hasProgram('gcloud') ? false : 'NOT TESTED: the emulator against the real gcloud (there is none here)' },
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'emulator-gcloud-'));
    let emulator: Emulator;

    before(async () => {
      emulator = await startEmulator({
        stateDir: join(folder, 'state'),
        speed: 400,
        seed: 1,
        env: {},
        isolation: 'none',
      });
    });

    after(async () => {
      await emulator.close();
      rmSync(folder, { recursive: true, force: true });
    });

    /** Runs one gcloud command; a home and a configuration of its own keep it off the user's. */
    function gcloud(...words: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
      return new Promise((resolve, reject) => {
        const child = spawn('gcloud', words, {
          stdio: ['ignore', 'pipe', 'pipe'],
          env: {
            PATH: process.env['PATH'],
            HOME: folder,
            CLOUDSDK_CONFIG: join(folder, 'config'),
            CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU: `${emulator.url}/`,
            CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE: `${emulator.url}/compute/v1/`,
            CLOUDSDK_AUTH_DISABLE_CREDENTIALS: 'true',
            CLOUDSDK_CORE_PROJECT: 'p',
            CLOUDSDK_COMPUTE_ZONE: zone,
            CLOUDSDK_CORE_DISABLE_PROMPTS: '1',
            CLOUDSDK_CORE_DISABLE_USAGE_REPORTING: '1',
            CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK: '1',
          },
        });
        let stdout = '';
        let stderr = '';
        child.stdout.on('data', (text: Buffer) => (stdout += String(text)));
        child.stderr.on('data', (text: Buffer) => (stderr += String(text)));
        child.on('error', reject);
        child.on('close', (code) => resolve({ code, stdout, stderr }));
      });
    }

    async function ok(...words: string[]): Promise<{ stdout: string; stderr: string }> {
      const result = await gcloud(...words);
      assert.equal(result.code, 0, result.stderr);
      return result;
    }

    test('tpu-vm create, list, describe, delete', async () => {
      const vm = ['compute', 'tpus', 'tpu-vm'];
      const created = await ok(
        ...vm,
        'create',
        'n1',
        '--accelerator-type=v5litepod-16',
        '--version=v2-alpha-tpuv5-lite',
        '--spot',
        '--labels=owner=ada',
      );
      assert.match(created.stderr, /Created tpu \[n1\]\./);
      const listed = await ok(...vm, 'list');
      assert.match(
        listed.stdout,
        /^NAME +ZONE +ACCELERATOR_TYPE +TYPE +TOPOLOGY +NETWORK +RANGE +STATUS *\nn1 +us-central1-a +v5litepod-16 +V5LITE_POD +4x4 +default +127\.\d+\.0\.0\/16 +READY *\n$/,
      );
      const described = JSON.parse((await ok(...vm, 'describe', 'n1', '--format=json')).stdout) as {
        networkEndpoints: unknown[];
        labels: object;
      };
      assert.equal(described.networkEndpoints.length, 4);
      assert.deepEqual(described.labels, { owner: 'ada' });
      await admin(emulator.url, 'preempt', 'n1');
      assert.equal((await ok(...vm, 'describe', 'n1', '--format=value(state)')).stdout, 'PREEMPTED\n');
      assert.match((await ok(...vm, 'delete', 'n1')).stderr, /Deleted tpu \[n1\]\./);
      const missing = await gcloud(...vm, 'describe', 'n1');
      assert.equal(missing.code, 1);
      assert.match(
        missing.stderr,
        /ERROR: \(gcloud\.compute\.tpus\.tpu-vm\.describe\) NOT_FOUND: Resource 'projects\/p\/locations\/us-central1-a\/nodes\/n1' was not found/,
      );
    });

    test('a stockout comes out of create as gcloud shows operation errors', async () => {
      await admin(emulator.url, 'stockout', zone);
      const words = ['--accelerator-type=v5litepod-4', '--version=v2-alpha-tpuv5-lite'];
      const failed = await gcloud('compute', 'tpus', 'tpu-vm', 'create', 'n2', ...words);
      await admin(emulator.url, 'clear', 'stockout');
      assert.equal(failed.code, 1);
      assert.match(failed.stderr, /"code": 8/);
      assert.match(failed.stderr, /There is no more capacity in the zone/);
    });

    test('queued-resources create, list, delete --force', async () => {
      const queue = ['compute', 'tpus', 'queued-resources'];
      await ok(
        ...queue,
        'create',
        'q1',
        '--node-id=qn',
        '--accelerator-type=v5litepod-4',
        '--runtime-version=v2-alpha-tpuv5-lite',
        '--spot',
        '--valid-until-duration=1h',
      );
      let state = '';
      for (let tries = 0; tries < 30 && state !== 'ACTIVE'; tries += 1) {
        state = (await ok(...queue, 'describe', 'q1', '--format=value(state.state)')).stdout.trim();
      }
      assert.equal(state, 'ACTIVE');
      const listed = await ok(...queue, 'list', '--zone=-');
      assert.match(
        listed.stdout,
        /^NAME +ZONE +NODE_COUNT +ACCELERATOR_TYPE +TYPE +TOPOLOGY +STATE *\nq1 +us-central1-a +1 +v5litepod-4 .*ACTIVE *\n$/,
      );
      const refused = await gcloud(...queue, 'delete', 'q1');
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, /FAILED_PRECONDITION/);
      await ok(...queue, 'delete', 'q1', '--force');
      assert.match((await ok(...queue, 'list')).stderr, /Listed 0 items\./);
    });
  },
);
