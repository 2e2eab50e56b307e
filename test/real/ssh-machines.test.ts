/** Machines over a real OpenSSH server: the same contract as on this machine, and what only a line can do. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createMachines } from '../../src/backends/machines.ts';
import { remoteRoot } from '../../src/remote/run-folder.ts';
import { createSshPool } from '../../src/remote/ssh.ts';
import { machinesContract, testRef } from '../remote/machines-contract.ts';
import { openSshd } from '../remote/sshd.ts';

// Each host has a job of its own: all of them are this machine, where a stop finds every process of its mark.
let jobs = 0;

machinesContract('a host over SSH', async (t) => {
  const sshd = await openSshd(t);
  if (sshd === undefined) return undefined;
  const pool = createSshPool({
    home: sshd.world.home,
    user: sshd.user,
    userHome: sshd.home,
    agent: null,
    sshArgs: [],
  });
  sshd.world.atEnd(() => {
    pool.close();
  });
  jobs += 1;
  const ref = testRef(String(jobs).padStart(6, '0'));
  const stepLog: string[] = [];
  const transport = pool.transport({
    host: sshd.host,
    port: sshd.port,
    user: sshd.user,
    keyFile: sshd.keyFile,
    pin: 'ab12cd-000001-1-0',
    hostKeys: [],
    userConfig: false,
  });
  const machines = createMachines({
    reach: () => Promise.resolve({ kind: 'open', transport }),
    root: (each) => remoteRoot(each.job),
    stepLog: async (_job, step, _worker, chunk) => {
      if (chunk.length > 0) stepLog.push(`${step}: ${Buffer.from(chunk).toString()}`);
    },
    readFile: async (path) => readFileSync(path),
    now: Date.now,
    forget: () => undefined,
  });
  return {
    machines,
    ref,
    stepLog,
    home: sshd.home,
    bootIdFile: sshd.bootIdFile,
    root: join(sshd.home, '.jobman/runs', ref.job.installation, ref.job.id),
  };
});
