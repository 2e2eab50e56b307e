/** jobman's own way over SSH to an OpenSSH server of a test. */
import { createSshPool, type SshPool, type SshPoolOptions, type SshTarget } from '../../src/remote/ssh.ts';
import type { Sshd } from '../remote/sshd.ts';

/** Connections as the user of the server; closed with its world. */
export function poolOn(sshd: Sshd, more: Partial<SshPoolOptions> = {}): SshPool {
  const { world, user, home } = sshd;
  const pool = createSshPool({ home: world.home, user, userHome: home, agent: null, sshArgs: [], ...more });
  world.atEnd(() => pool.close());
  return pool;
}

/** The server as a worker that jobman made. */
export function targetOn({ host, port, user, keyFile }: Sshd, more: Partial<SshTarget> = {}): SshTarget {
  return { host, port, user, keyFile, pin: 'job-1-0', hostKeys: [], userConfig: false, ...more };
}
