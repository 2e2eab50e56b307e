/** Machines over a real OpenSSH server: the same contract as on this machine, and what only a line can do. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createMachines } from '../../src/backends/machines.ts';
import { remoteRoot } from '../../src/remote/run-folder.ts';
import { machinesContract, testRef } from '../remote/machines-contract.ts';
import { openSshd } from '../remote/sshd.ts';
import { poolOn, targetOn } from '../support/ssh.ts';

// Each host has a job of its own: all of them are this machine, where a stop finds every process of its mark.
let jobs = 0;

machinesContract('a host over SSH', async (t) => {
  const sshd = await openSshd(t);
  if (sshd === undefined) return undefined;
  jobs += 1;
  const ref = testRef(String(jobs).padStart(6, '0'));
  const stepLog: string[] = [];
  const transport = poolOn(sshd).transport(targetOn(sshd, { pin: 'ab12cd-000001-1-0' }));
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
