/** jobman's own way over SSH to an OpenSSH server of a test. */
import { test } from 'node:test';
import {
  createSshPool,
  type SshPool,
  type SshPoolOptions,
  type SshTarget,
  type SshTransport,
} from '../../src/remote/ssh.ts';
import { openSshd, type Sshd } from '../remote/sshd.ts';

/** A test with a server of its own; skipped loudly where there is no sshd. */
export function sshdTest(name: string, run: (sshd: Sshd) => Promise<void>, settings: readonly string[] = []): void {
  test(name, async (t) => {
    const sshd = await openSshd(t, settings);
    if (sshd !== undefined) await run(sshd);
  });
}

/** Connections as the user of the server; closed with its world. */
export function poolOn(sshd: Sshd, more: Partial<SshPoolOptions> = {}): SshPool {
  const { world, user, home } = sshd;
  const pool = createSshPool({ home: world.home, user, userHome: home, agent: null, sshArgs: [], ...more });
  world.atEnd(() => pool.close());
  return pool;
}

/** The server as a worker that jobman made. */
export function targetOn({ host, port, user, keyFile }: Sshd, more: Partial<SshTarget> = {}): SshTarget {
  return { host, port, user, keyFile, pinName: 'job-1-0', hostKeys: [], usesUserConfig: false, ...more };
}

/** A way to the server over connections of its own. */
export function transportOn(
  sshd: Sshd,
  more: Partial<SshTarget> = {},
  options: Partial<SshPoolOptions> = {},
): SshTransport {
  return poolOn(sshd, options).transport(targetOn(sshd, more));
}
