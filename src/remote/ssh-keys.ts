// SSH keys: jobman's own login key, the user's keys that can be used in process, and the pinned host keys. Each worker
// has one file of host keys in OpenSSH's own format, so that the system's ssh can use it (UserKnownHostsFile with
// HostKeyAlias), and pinning and forgetting need no lock.

import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { chmod, link, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { ParsedKey } from 'ssh2';
import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import { fileModeIn, isGroupShared, makeFolder } from '../app/files.ts';

export interface OwnKey {
  readonly file: string;
  /** The public half, one line without its end: `ssh-ed25519 AAAA… jobman`. */
  readonly publicKey: string;
}

/**
 * Reads or creates jobman's own login key, `$JOBMAN_HOME/ssh/id_ed25519`. Safe to repeat and to run concurrently: the
 * file appears complete, and the first process wins. Throws when the folder cannot be written, and a JobmanError when
 * the key belongs to another login.
 */
export async function ensureOwnKey(home: string): Promise<OwnKey> {
  const folder = join(home, 'ssh');
  const file = join(folder, 'id_ed25519');
  let text: string | undefined = await readIfExists(file);
  if (text === undefined) {
    makeFolder(folder);
    await createOnce(file, createKeyText(), 0o600);
    text = await readFile(file, 'utf8');
  }
  const publicKey = publicKeyOf(text, file);
  // The public file is a copy for users and for `ssh-copy-id`; the private file is authoritative.
  if ((await readIfExists(`${file}.pub`)) !== `${publicKey}\n`) {
    const fresh = `${file}.pub.${randomBytes(6).toString('hex')}`;
    await writeFile(fresh, `${publicKey}\n`, { mode: isGroupShared(folder) ? 0o660 : 0o644 });
    await rename(fresh, `${file}.pub`);
    await chmod(file, 0o600);
  }
  return { file, publicKey };
}

export type LoadedKey = { readonly key: ParsedKey } | { readonly problem: string };

/** Undefined when there is no file. `parse` is ssh2's. */
export async function loadKey(
  file: string,
  parse: (text: Buffer) => ParsedKey | Error,
): Promise<LoadedKey | undefined> {
  let text: Buffer;
  try {
    text = await readFile(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    return { problem: `the key file ${file} cannot be read: ${messageOf(error)}` };
  }
  // The file of a security key holds only a handle; its type is in the public part, in base64 with a length in front.
  if (Buffer.from(text.toString('latin1').replaceAll(/-----.*-----|\s/gu, ''), 'base64').includes('sk-')) {
    return { problem: `the key ${file} is on a security key, which requires an SSH agent: add it with ssh-add` };
  }
  const key = parse(text);
  if (key instanceof Error) {
    return /encrypted/iu.test(key.message)
      ? { problem: `the key ${file} is protected by a passphrase: add it to your agent with ssh-add ${file}` }
      : { problem: `the key ${file} cannot be used: ${key.message}` };
  }
  if (!key.isPrivateKey()) return { problem: `the file ${file} is not a private key` };
  return { key };
}

async function readIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    // In a home that a group shares, the key is private to its owner. The group reaches its machines with a key that
    // all members can read.
    if (errorCode(error) === 'EACCES') {
      throw new JobmanError(
        `The login key of jobman, ${file}, belongs to another user of this machine.`,
        exitCode.failed,
        [
          'Run the controller as that user, or set a key that the group can read: `ssh.private_key` in a manifest, `lab.privateKey` in the settings.',
        ],
      );
    }
    throw error;
  }
}

const keyComment = 'jobman';

/**
 * A new ed25519 key in OpenSSH's format (PROTOCOL.key of OpenSSH), which ssh2 and the system's ssh both read. Node
 * writes PKCS#8, which neither accepts for ed25519.
 */
function createKeyText(): string {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const seed = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url');
  const point = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  const shared = Buffer.concat([field('ssh-ed25519'), field(point)]);
  const check = randomBytes(4);
  const secret = [check, check, shared, field(Buffer.concat([seed, point])), field(keyComment)];
  const length = secret.reduce((sum, part) => sum + part.length, 0);
  const padding = Buffer.from(Array.from({ length: (8 - (length % 8)) % 8 }, (_, index) => index + 1));
  const body = Buffer.concat([
    Buffer.from('openssh-key-v1\0', 'latin1'),
    field('none'),
    field('none'),
    field(''),
    number(1),
    field(shared),
    field(Buffer.concat([...secret, padding])),
  ]);
  const lines = body.toString('base64').replaceAll(/.{1,70}/gu, '$&\n');
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}-----END OPENSSH PRIVATE KEY-----\n`;
}

/** Reads the public line from the private file: its public part follows unencrypted after four fields and a count. */
function publicKeyOf(text: string, file: string): string {
  const body = Buffer.from(text.replaceAll(/-----.*-----|\s/gu, ''), 'base64');
  let at = 'openssh-key-v1\0'.length;
  if (body.subarray(0, at).toString('latin1') !== 'openssh-key-v1\0') {
    throw new Error(`${file} is not a key in OpenSSH format; move it away, and jobman creates a new one`);
  }
  for (let skipped = 0; skipped < 3; skipped += 1) at += 4 + body.readUInt32BE(at);
  at += 4;
  const shared = body.subarray(at + 4, at + 4 + body.readUInt32BE(at));
  const type = shared.subarray(4, 4 + shared.readUInt32BE(0)).toString('latin1');
  return `${type} ${shared.toString('base64')} ${keyComment}`;
}

/** A string in SSH's encoding: its length, then its bytes (RFC 4251, 5). */
function field(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([number(bytes.length), bytes]);
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export type HostKeys = ReturnType<typeof createHostKeys>;

/** Pins are files below `$JOBMAN_HOME/ssh/known_hosts/`. */
export function createHostKeys(home: string) {
  const folder = join(home, 'ssh', 'known_hosts');
  const file = (name: string): string => {
    if (!/^[A-Za-z0-9_.-]+$/u.test(name)) throw new Error(`${name} cannot name a pinned host key`);
    return join(folder, name);
  };
  async function pinned(name: string): Promise<string | undefined> {
    let text: string;
    try {
      text = await readFile(file(name), 'utf8');
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    const [, type, base64] = text.trim().split(' ');
    return `${type} ${base64}`;
  }
  return {
    pinned,
    /** Pins a key unless one is pinned; returns the pinned key. Safe to repeat, also by two processes at once. */
    async pin(name: string, key: string): Promise<string> {
      const target = file(name);
      makeFolder(folder);
      await createOnce(target, `${name} ${key}\n`, fileModeIn(folder));
      return (await pinned(name)) ?? key;
    },
    async forget(prefix: string): Promise<void> {
      let names: readonly string[];
      try {
        names = await readdir(folder);
      } catch (error) {
        if (errorCode(error) === 'ENOENT') return;
        throw error;
      }
      for (const name of names) {
        if (name.startsWith(prefix)) await rm(join(folder, name), { force: true });
      }
    },
    file,
  };
}

async function createOnce(file: string, text: string, mode: number): Promise<void> {
  const fresh = join(dirname(file), `.${basename(file)}.${randomBytes(6).toString('hex')}`);
  await writeFile(fresh, text, { mode });
  try {
    await link(fresh, file);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  } finally {
    await rm(fresh, { force: true });
  }
}

/** From the wire format (RFC 4253, 6.6: the type with a length in front, then the rest) to `type base64`. */
export function keyFromWire(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes);
  const type = buffer.subarray(4, 4 + buffer.readUInt32BE(0)).toString('ascii');
  return `${type} ${buffer.toString('base64')}`;
}

export function fingerprint(key: string): string {
  const [type = '', base64 = ''] = key.split(' ');
  const hash = createHash('sha256').update(Buffer.from(base64, 'base64')).digest('base64').replace(/=+$/u, '');
  return `${type} SHA256:${hash}`;
}

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
