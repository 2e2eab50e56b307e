// Known hosts: the keys that the user's known_hosts files have for a host, as ssh-keygen finds them: names may be hashed.

import { runProcess } from './process.ts';
import type { SshConfig } from './ssh-config.ts';

/** `type base64` of each key. Throws if ssh-keygen cannot be started. */
export async function knownHostKeys({ knownHosts }: Pick<SshConfig, 'knownHosts'>): Promise<readonly string[]> {
  const found = await Promise.all(knownHosts.files.map((file) => keysIn(file, knownHosts.name)));
  const lines = found.flat();
  const revoked = lines.filter(({ marker }) => marker === '@revoked').map(({ key }) => key);
  return lines.filter(({ marker, key }) => marker === null && !revoked.includes(key)).map(({ key }) => key);
}

interface KnownKey {
  readonly marker: string | null;
  readonly key: string;
}

async function keysIn(file: string, name: string): Promise<readonly KnownKey[]> {
  const result = await runProcess({
    argv: ['ssh-keygen', '-F', name, '-f', file],
    timeoutMs: 5_000,
    maxOutputBytes: 200_000,
  });
  if (result.error !== null) throw new Error(`ssh-keygen cannot be started: ${result.error}`);
  const lines = new TextDecoder().decode(result.stdout).split('\n');
  return lines.flatMap((line): readonly KnownKey[] => {
    const parts = line.trim().split(/\s+/u);
    const marker = parts[0]?.startsWith('@') === true ? (parts.shift() ?? null) : null;
    const [host, type, base64] = parts;
    return host === undefined || host.startsWith('#') || base64 === undefined
      ? []
      : [{ marker, key: `${type} ${base64}` }];
  });
}
