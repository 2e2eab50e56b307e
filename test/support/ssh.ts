/** jobman's own SSH transport to an OpenSSH server of a test. */
import { test, type TestContext } from 'node:test';
import {
  createSshPool,
  type SshPool,
  type SshPoolOptions,
  type SshTarget,
  type SshTransport,
} from '../../src/remote/ssh.ts';
import { openSshd, type Sshd } from '../remote/sshd.ts';

/** A test with its own server; skipped with a message without sshd. */
export function sshdTest(
  name: string,
  run: (sshd: Sshd, t: TestContext) => Promise<void>,
  settings: readonly string[] = [],
): void {
  test(name, async (t) => {
    const sshd = await openSshd(t, settings);
    if (sshd !== undefined) await run(sshd, t);
  });
}

/** Connections as the user of the server; closed with its world. */
export function poolOn(sshd: Sshd, more: Partial<SshPoolOptions> = {}): SshPool {
  const { world, user, home } = sshd;
  const pool = createSshPool({ home: world.home, user, userHome: home, agent: null, sshArgs: [], ...more });
  world.atEnd(() => pool.close());
  return pool;
}

/** The server as a worker that jobman created. */
export function targetOn({ host, port, user, keyFile }: Sshd, more: Partial<SshTarget> = {}): SshTarget {
  return { host, port, user, keyFile, pinName: 'job-1-0', hostKeys: [], usesUserConfig: false, ...more };
}

/** A transport to the server with separate connections. */
export function transportOn(
  sshd: Sshd,
  more: Partial<SshTarget> = {},
  options: Partial<SshPoolOptions> = {},
): SshTransport {
  return poolOn(sshd, options).transport(targetOn(sshd, more));
}
