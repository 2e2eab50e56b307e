/** The machine that jobman runs on as a worker: natively, and through the shell texts that remote hosts run. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createLocalMachines, localRoot } from '../../src/backends/local/machines.ts';
import { createMachines } from '../../src/backends/machines.ts';
import { remoteRoot } from '../../src/remote/run-folder.ts';
import { createLocalTransport } from '../../src/remote/transport.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';
import type { Ground } from '../remote/machines-contract.ts';
import { machinesContract, testRef } from '../remote/machines-contract.ts';

let jobs = 0;

/** A host: its home folder has a blank in its name, its boot id is a file. */
function openHost(t: TestContext): Pick<Ground, 'ref' | 'home' | 'bootIdFile' | 'stepLog'> & {
  readonly env: Record<string, string>;
  readonly jobmanHome: string;
  readonly folder: string;
} {
  const world = openWorld(t);
  const home = join(world.folder, 'a home');
  const bootIdFile = join(world.folder, 'boot_id');
  mkdirSync(home);
  writeFileSync(bootIdFile, 'boot-one\n');
  const env = { ...world.env, HOME: home, JOBMAN_BOOT_ID_FILE: bootIdFile };
  jobs += 1;
  const ref = testRef(String(jobs).padStart(6, '0'));
  return { ref, home, bootIdFile, stepLog: [], env, jobmanHome: world.home, folder: world.folder };
}

machinesContract('this machine', (t) => {
  const host = openHost(t);
  const machines = createLocalMachines({
    home: host.jobmanHome,
    env: host.env,
    userHome: host.home,
    now: Date.now,
    stepLog: async (_job, step, _worker, chunk) => {
      host.stepLog.push(`${step}: ${Buffer.from(chunk).toString()}`);
    },
    readFile: async (path) => readFileSync(path),
    changed: () => undefined,
    recheckEvery: 200,
  });
  return Promise.resolve({ ...host, machines, root: localRoot(host.jobmanHome, host.ref.job, host.ref.worker) });
});

/** The shell texts, with every program they use taken from that folder of names. */
function throughShell(
  name: string,
  programs: (host: ReturnType<typeof openHost>) => Record<string, string> | undefined,
): void {
  machinesContract(name, (t) => {
    const found = programs({ folder: '' } as ReturnType<typeof openHost>);
    if (!requireReal(t, name, found !== undefined)) return Promise.resolve(undefined);
    const host = openHost(t);
    const folder = join(host.folder, 'bin');
    mkdirSync(folder);
    for (const [program, target] of Object.entries(found ?? {})) symlinkSync(target, join(folder, program));
    const env = { ...host.env, PATH: name === 'busybox' ? folder : `${folder}:${host.env['PATH']}` };
    const transport = createLocalTransport({ env, cwd: host.home, shell: [join(folder, 'sh'), '-s'] });
    const machines = createMachines({
      reach: () => Promise.resolve({ kind: 'open', transport }),
      root: (ref) => remoteRoot(ref.job),
      stepLog: async (_job, step, _worker, chunk) => {
        host.stepLog.push(`${step}: ${Buffer.from(chunk).toString()}`);
      },
      readFile: async (path) => readFileSync(path),
      now: Date.now,
      forget: () => undefined,
    });
    return Promise.resolve({
      ...host,
      machines,
      root: join(host.home, '.jobman/runs', host.ref.job.installation, host.ref.job.id),
    });
  });
}

const only = (program: string) => () => {
  const path = findProgram(program);
  return path === undefined ? undefined : { sh: path };
};
throughShell('dash', only('dash'));
throughShell('bash', only('bash'));

/** Every program from one busybox, as on a small image: no bash, no GNU tool. */
throughShell('busybox', () => {
  const busybox = findProgram('busybox');
  if (busybox === undefined) return undefined;
  const names =
    'sh setsid base64 mktemp mkdir rmdir mv rm cat chmod date stat grep tail head wc sleep sort tr env true sed'.split(
      ' ',
    );
  return Object.fromEntries(names.map((program) => [program, busybox]));
});
