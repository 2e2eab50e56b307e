// The real, unchanged gcloud as a client of the emulator: requests, output and exit codes.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import type { Emulator } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { run, type ProgramResult } from '../support/program.ts';
import { eventually, hasProgram } from './emulator-host.ts';

const zone = 'us-central1-a';

describe(
  'gcloud',
  { skip: hasProgram('gcloud') ? false : 'NOT TESTED: the emulator with the real gcloud, which is not installed here' },
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'emulator-gcloud-'));
    let emulator: Emulator;

    before(async () => {
      // gcloud would create a key with 3072 bits, which takes long.
      mkdirSync(join(folder, '.ssh'), { mode: 0o700 });
      const keygen = '-q -t rsa -b 2048 -C ada -f .ssh/google_compute_engine -N'.split(' ');
      execFileSync('ssh-keygen', [...keygen, ''], { cwd: folder });
      emulator = await startEmulator({
        stateDir: join(folder, 'state'),
        speed: 400,
        seed: 1,
        env: process.env,
      });
      await runAdminVerb(emulator.url, 'reserve', `${zone}/v5e`, { chips: '4', name: 'ours' });
    });

    after(async () => {
      await emulator.close();
      rmSync(folder, { recursive: true, force: true });
    });

    /**
     * Runs a gcloud command: a line of arguments, and further arguments with spaces. It has its own home and
     * configuration.
     */
    function gcloud(line: string, ...more: string[]): Promise<ProgramResult> {
      const env = {
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
      };
      return run(['gcloud', ...line.split(' '), ...more], { env });
    }

    /** A command that must fail with this exit code and message. */
    async function fails(code: number, message: RegExp, line: string, ...more: string[]): Promise<void> {
      const result = await gcloud(line, ...more);
      assert.equal(result.code, code, result.stderr);
      assert.match(result.stderr, message);
    }

    /** Applies a fault while a command runs, and clears it. */
    async function under(
      [verb, target, options]: readonly [string, string?, Record<string, string>?],
      act: () => Promise<void>,
    ): Promise<void> {
      await runAdminVerb(emulator.url, verb, target, options);
      try {
        await act();
      } finally {
        await runAdminVerb(emulator.url, 'clear', verb);
      }
    }

    const vm = 'compute tpus tpu-vm';
    const alphaVm = `alpha ${vm}`;
    const queue = 'compute tpus queued-resources';
    const small = '--accelerator-type=v5litepod-4 --version=v2-alpha-tpuv5-lite';
    const request = '--accelerator-type=v5litepod-4 --runtime-version=v2-alpha-tpuv5-lite';

    async function reaches(id: string, wanted: string): Promise<void> {
      await eventually(`${id} is ${wanted}`, async () => {
        const reply = await fetch(`${emulator.url}/v2/projects/p/locations/${zone}/queuedResources/${id}`);
        return ((await reply.json()) as { state?: { state: string } }).state?.state === wanted;
      });
    }

    async function ok(line: string, ...more: string[]): Promise<{ stdout: string; stderr: string }> {
      const result = await gcloud(line, ...more);
      assert.equal(result.code, 0, result.stderr);
      return result;
    }

    test('the catalogue: locations, accelerator types, versions, topologies', async () => {
      const tpus = 'compute tpus';
      const [locations, location, types, type, old, versions, version, topologies] = await Promise.all([
        ok(`${tpus} locations list`),
        ok(`${tpus} locations describe ${zone} --format=value(locationId)`),
        ok(`${vm} accelerator-types list --format=value(type)`),
        ok(`${vm} accelerator-types describe v5litepod-16 --format=json`),
        ok(`${tpus} accelerator-types list`),
        ok(`${vm} versions list`),
        ok(`${tpus} versions describe 2.18.0 --format=value(version)`),
        ok(`${tpus} topologies list`),
      ]);
      assert.match(
        locations.stdout,
        /^LOCATION +LOCATION_NAME\n(.*\n)*us-central1-a +projects\/p\/locations\/us-central1-a\n/,
      );
      assert.equal(location.stdout, `${zone}\n`);
      assert.ok(types.stdout.split('\n').includes('v5litepod-256'));
      assert.deepEqual((JSON.parse(type.stdout) as { acceleratorConfigs: unknown }).acceleratorConfigs, [
        { type: 'V5LITE_POD', topology: '4x4' },
      ]);
      assert.match(old.stdout, /^ACCELERATOR_TYPE\n(.*\n)*v5litepod-8\n/);
      assert.match(versions.stdout, /^RUNTIME_VERSION\n(.*\n)*v2-alpha-tpuv6e\n/);
      assert.equal(version.stdout, '2.18.0\n');
      assert.match(topologies.stdout, /^TOPOLOGY +TYPE +ACCELERATOR_TYPE\n(.*\n)*8x8 +V5LITE_POD +v5litepod-64\n/);
    });

    test('tpu-vm create, list, describe, delete', async () => {
      const created = await ok(
        `${vm} create n1 --accelerator-type=v5litepod-16 --version=v2-alpha-tpuv5-lite --spot --labels=owner=ada`,
      );
      assert.match(created.stderr, /Created tpu \[n1\]\./);
      const listed = await ok(`${vm} list`);
      assert.match(
        listed.stdout,
        /^NAME +ZONE +ACCELERATOR_TYPE +TYPE +TOPOLOGY +NETWORK +RANGE +STATUS *\nn1 +us-central1-a +v5litepod-16 +V5LITE_POD +4x4 +default +127\.\d+\.0\.0\/16 +READY *\n$/,
      );
      const described = JSON.parse((await ok(`${vm} describe n1 --format=json`)).stdout) as {
        networkEndpoints: unknown[];
        labels: object;
      };
      assert.equal(described.networkEndpoints.length, 4);
      assert.deepEqual(described.labels, { owner: 'ada' });
      await runAdminVerb(emulator.url, 'preempt', 'n1');
      assert.equal((await ok(`${vm} describe n1 --format=value(state)`)).stdout, 'PREEMPTED\n');
      assert.match((await ok(`${vm} delete n1`)).stderr, /Deleted tpu \[n1\]\./);
      const missing = await gcloud(`${vm} describe n1`);
      assert.equal(missing.code, 1);
      assert.match(
        missing.stderr,
        /ERROR: \(gcloud\.compute\.tpus\.tpu-vm\.describe\) NOT_FOUND: Resource 'projects\/p\/locations\/us-central1-a\/nodes\/n1' was not found/,
      );
    });

    test('a node is updated, stopped and started; a disk is attached and detached', async () => {
      const created = await ok(`${vm} create s1 ${small} --async`);
      assert.match(
        created.stderr,
        /Check operation \[projects\/p\/locations\/us-central1-a\/operations\/operation-\S+\] for status\./,
      );
      await eventually('s1 is ready', async () => {
        const reply = await fetch(`${emulator.url}/v2/projects/p/locations/${zone}/nodes/s1`);
        return ((await reply.json()) as { state?: string }).state === 'READY';
      });
      const updated = await ok(`${vm} update s1 --add-tags=x,y --update-labels=team=a --description=ours`);
      assert.match(updated.stderr, /Updated tpu \[s1\]\./);
      const described = await ok(`${vm} describe s1 --format=json(tags,labels,description)`);
      assert.deepEqual(JSON.parse(described.stdout), { description: 'ours', labels: { team: 'a' }, tags: ['x', 'y'] });

      const disk = '--disk=projects/p/zones/us-central1-a/disks/d';
      const attached = await ok(`${alphaVm} attach-disk s1 ${disk} --mode=read-only --format=json(dataDisks)`);
      assert.deepEqual(JSON.parse(attached.stdout), {
        dataDisks: [{ mode: 'READ_ONLY', sourceDisk: 'projects/p/zones/us-central1-a/disks/d' }],
      });
      const detached = await ok(`${alphaVm} detach-disk s1 ${disk} --format=json(dataDisks)`);
      assert.doesNotMatch(detached.stdout, /disks\/d/);

      await ok(`${vm} stop s1`);
      await fails(
        1,
        /This TPU has state "STOPPED", so it cannot be currently connected to\./,
        `${vm} ssh s1 --command=true`,
      );
      await ok(`${vm} start s1`);
      assert.equal((await ok(`${vm} describe s1 --format=value(state)`)).stdout, 'READY\n');
      const [guest, service] = await Promise.all([
        ok(`${vm} get-guest-attributes s1`),
        ok(`${vm} service-identity create --format=value(identity.email)`),
      ]);
      assert.match(guest.stdout, /hostkeys +ssh-ed25519 +0 +AAAAC3/);
      assert.match(service.stdout, /^service-\d+@cloud-tpu\.iam\.gserviceaccount\.com\n$/);
      await runAdminVerb(emulator.url, 'preempt', 's1');
      await fails(
        1,
        /This TPU has terminal state "PREEMPTED", so it cannot be used anymore\./,
        `${vm} ssh s1 --command=true`,
      );
    });

    test('ssh and scp reach every worker, each with its own home', async () => {
      await ok(`${vm} create w1 --accelerator-type=v5litepod-16 --version=v2-alpha-tpuv5-lite --spot`);
      const ssh = `${vm} ssh ada@w1 --ssh-flag=-p${String(emulator.sshPort)}`;
      const scp = `${vm} scp --scp-flag=-P${String(emulator.sshPort)}`;
      const names = (await ok(`${ssh} --worker=all`, '--command=hostname; whoami')).stdout;
      for (const worker of [0, 1, 2, 3])
        assert.match(names, new RegExp(`^t1v-n-[0-9a-f]{8}-w-${String(worker)}$`, 'm'));
      const node = await ok(`${vm} describe w1 --format=value(metadata.ssh-keys)`);
      assert.match(node.stdout, /^\s*ada:ssh-rsa AAAA/m);

      const file = join(folder, 'f.txt');
      const back = join(folder, 'back.txt');
      writeFileSync(file, 'hello\n');
      await ok(`${scp} ${file} ada@w1: --worker=all`);
      await ok(`${ssh} --worker=2`, '--command=echo again >> f.txt');
      assert.equal((await ok(`${ssh} --worker=3`, '--command=cat f.txt')).stdout, 'hello\n');
      await ok(`${scp} ada@w1:f.txt ${back} --worker=2`);
      assert.equal(readFileSync(back, 'utf8'), 'hello\nagain\n');

      // Guest attributes are listed per worker, and a key does not match longer keys.
      const at = 'http://$GCE_METADATA_HOST/computeMetadata/v1/instance/guest-attributes/startup/status';
      const put = `curl -sf -X PUT -H 'Metadata-Flavor: Google' --data "done $TPU_WORKER_ID" ${at}`;
      await ok(`${ssh} --worker=all`, `--command=${put} && ${put}-2`);
      const asked = 'w1 --query-path=startup/status --format=value(worker_id,key,value)';
      const published = await ok(`${vm} get-guest-attributes ${asked}`);
      assert.deepEqual(
        published.stdout
          .trim()
          .split('\n')
          .map((line) => line.split(/\s+/).join(' ')),
        [0, 1, 2, 3].map((worker) => `${String(worker)} status done ${String(worker)}`),
      );

      assert.equal((await gcloud(`${ssh} --worker=1`, '--command=exit 9')).code, 9);
      const several = await gcloud(`${ssh} --worker=all`, '--command=exit 9');
      assert.equal(several.code, 9);
      assert.match(several.stderr, /##### Command execution on worker 2 failed with exit status 9\. Continuing\./);
      await fails(
        1,
        /worker index 9 is larger than the valid worker indexes on this TPU VM\. Please only use indexes in the range \[0, 3\], inclusive\./,
        `${ssh} --worker=9 --command=true`,
      );
      await fails(1, /cannot target multiple workers without the `--command` flag/, `${ssh} --worker=all`);
      await ok(`${vm} delete w1`);
    });

    test('a key of the project logs in on every node without changing the nodes', async () => {
      await ok(`${vm} create k1 ${small}`);
      const project = `${emulator.url}/compute/v1/projects/p`;
      const key = readFileSync(join(folder, '.ssh/google_compute_engine.pub'), 'utf8').trim();
      const items = [{ key: 'ssh-keys', value: `bob:${key.replace(/ada$/, 'bob')}` }];
      await fetch(`${project}/setCommonInstanceMetadata`, { method: 'POST', body: JSON.stringify({ items }) });
      const port = `--ssh-flag=-p${String(emulator.sshPort)}`;
      const who = await ok(`${vm} ssh bob@k1 --worker=0`, '--command=echo $USER', port);
      assert.equal(who.stdout, 'bob\n');
      assert.equal((await ok(`${vm} describe k1 --format=value(metadata)`)).stdout.trim(), '');
    });

    test("an error has Google's message and exit code 1", async () => {
      const create = `${vm} create r1`;
      const version = '--version=v2-alpha-tpuv5-lite';
      await Promise.all([
        fails(
          1,
          /INVALID_ARGUMENT: Cloud TPU received a bad request\. The requested accelerator configuration for accelerator type, "v6e-3"/,
          `${create} --accelerator-type=v6e-3 ${version}`,
        ),
        fails(1, /INVALID_ARGUMENT: .*The requested zone "moon-a" is not supported/, `${vm} list --zone=moon-a`),
        fails(1, /NOT_FOUND: Resource '.*nodes\/nope' was not found/, `${vm} delete nope`),
        fails(2, /Invalid choice|unrecognized arguments/, `${vm} create r1 --flub`),
      ]);
      await under(['quota', 'v5e', { limit: '0', pricing: 'spot' }], () =>
        fails(
          1,
          /RESOURCE_EXHAUSTED: Quota limit 'TPUV5sPreemptibleLitepodServingPerProjectPerRegionForTPUAPI' has been exceeded\. Limit: 0 in region us-central1\./,
          `${create} ${small} --spot`,
        ),
      );
      await under(['permission', zone], () =>
        fails(
          1,
          /PERMISSION_DENIED: Permission denied on 'locations\/us-central1-a'[^]*LOCATION_POLICY_VIOLATED/,
          `${vm} list`,
        ),
      );
      await under(['permission', 'tpu.nodes.create'], () =>
        fails(
          1,
          /PERMISSION_DENIED: Permission 'tpu\.nodes\.create' denied[^]*IAM_PERMISSION_DENIED/,
          `${create} ${small}`,
        ),
      );
      await under(['permission', 'login'], () => fails(1, /UNAUTHENTICATED: /, `${vm} list`));
      // gcloud itself retries after a 503.
      await under(['flaky', '*', { p: '1', times: '2' }], async () => void (await ok(`${vm} list --zone=-`)));
      // A create whose reply was lost is sent again, and the second one finds the node.
      await under(['drop', 'create'], () =>
        fails(1, /ALREADY_EXISTS: Resource '.*nodes\/r1' already exists/, `${create} ${small}`),
      );
    });

    test('maintenance: announced, performed, simulated', async () => {
      await ok(`${vm} create m1 ${small}`);
      await fails(1, /FAILED_PRECONDITION: There is no upcoming maintenance/, `${alphaVm} perform-maintenance m1`);
      await runAdminVerb(emulator.url, 'maintenance', 'm1', { in: '1h' });
      const announced = await ok(`${alphaVm} describe m1 --format=value(upcomingMaintenance.maintenanceStatus)`);
      assert.equal(announced.stdout, 'PENDING\n');
      await ok(`${alphaVm} perform-maintenance m1`);
      await ok(`${alphaVm} simulate-maintenance-event m1 --workers=0`);
      const after = await ok(`${alphaVm} describe m1 --format=value(state,upcomingMaintenance)`);
      assert.equal(after.stdout.trim(), 'READY');
    });

    test('a stockout in create is shown like other operation errors of gcloud', async () => {
      await runAdminVerb(emulator.url, 'stockout', zone);
      const failed = await gcloud(`${vm} create n2 ${small}`);
      await runAdminVerb(emulator.url, 'clear', 'stockout');
      assert.equal(failed.code, 1);
      assert.match(failed.stderr, /"code": 8/);
      assert.match(failed.stderr, /There is no more capacity in the zone/);
    });

    test('queued-resources create, list, describe, ssh, scp, reset, delete', async () => {
      const created = await ok(`${queue} create q1 --node-id=qn ${request} --spot --valid-until-duration=1h`);
      assert.match(created.stderr, /Created queued_resource \[q1\]\./);
      await ok(`${queue} create q2 --node-count=2 --node-prefix=ms ${request} --guaranteed --async`);
      await Promise.all([reaches('q1', 'ACTIVE'), reaches('q2', 'ACTIVE')]);
      const listed = await ok(`${queue} list --zone=-`);
      assert.match(
        listed.stdout,
        /^NAME +ZONE +NODE_COUNT +ACCELERATOR_TYPE +TYPE +TOPOLOGY +STATE *\nq1 +us-central1-a +1 +v5litepod-4 .*ACTIVE *\nq2 +us-central1-a +2 .*ACTIVE *\n$/,
      );
      assert.equal((await ok(`${queue} describe q2 --format=value(state.state)`)).stdout, 'ACTIVE\n');

      const all = '--node=all --worker=all';
      const port = String(emulator.sshPort);
      const names = await ok(`${queue} ssh ada@q2 ${all} --command=hostname --ssh-flag=-p${port}`);
      assert.equal(names.stdout.trim().split('\n').length, 2);
      const file = join(folder, 'q.txt');
      writeFileSync(file, 'queued\n');
      await ok(`${queue} scp ${file} ada@q2: ${all} --scp-flag=-P${port}`);
      const read = await ok(`${queue} ssh ada@q2 --node=1 --worker=0`, '--command=cat q.txt', `--ssh-flag=-p${port}`);
      assert.equal(read.stdout, 'queued\n');

      assert.match((await ok(`${queue} reset q1`)).stdout, /verb: reset/);
      await fails(1, /FAILED_PRECONDITION/, `${queue} delete q1`);
      await Promise.all([ok(`${queue} delete q1 --force`), ok(`${queue} delete q2 --force`)]);
      await fails(1, /NOT_FOUND: Resource '.*queuedResources\/q1' was not found/, `${queue} describe q1`);
    });

    test("a request uses a reservation by gcloud's name for it; flex-start shows its end", async () => {
      const alphaQueue = `alpha ${queue}`;
      await ok(`${alphaQueue} create q3 --node-id=q3n ${request} --reservation=ours --reserved`);
      await ok(
        `${alphaQueue} create q4 --node-id=q4n ${request} --provisioning-model=FLEX_START --max-run-duration=1h`,
      );
      await Promise.all([reaches('q3', 'ACTIVE'), reaches('q4', 'ACTIVE')]);
      const { stdout } = await ok('alpha compute tpus reservations list');
      assert.match(stdout, /\nours +us-central1-a +4 +CHIPS +V5LITE_POD .* 4 *\n/);
      const flex = await ok(`${alphaQueue} describe q4 --format=value(runDuration.terminationTime)`);
      assert.match(flex.stdout, /^\d{4}-\d\d-\d\dT/);
      // A preempted request is SUSPENDED, and can then be deleted without force.
      await runAdminVerb(emulator.url, 'preempt', 'q3');
      await reaches('q3', 'SUSPENDED');
      await ok(`${queue} delete q3`);
    });
  },
);
