// Host keys, and the lines of `ssh-keys` metadata that say who may log in.

import { generateKeyPairSync } from 'node:crypto';

export interface HostKey {
  /** PEM in OpenSSH's or PKCS#8's form, as the SSH server takes it. */
  readonly privateKey: string;
  /** The base64 part of `ssh-ed25519 AAAA…`. */
  readonly publicBlob: string;
}

/** A new ed25519 key. The OpenSSH container is written here because neither Node nor PKCS#8 speaks it. */
export function newHostKey(): HostKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const point = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  const seed = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url');
  const publicBlob = Buffer.concat([field('ssh-ed25519'), field(point)]);
  // PROTOCOL.key of OpenSSH: two equal check words, the key, a comment, and 1, 2, 3 … up to the block size of eight.
  const check = Buffer.from([7, 7, 7, 7]);
  const body = Buffer.concat([check, check, publicBlob, field(Buffer.concat([seed, point])), field('')]);
  const padding = Buffer.from(Array.from({ length: (8 - (body.length % 8)) % 8 }, (_, index) => index + 1));
  const container = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'),
    field('none'),
    field(''),
    Buffer.from([0, 0, 0, 1]),
    field(publicBlob),
    field(Buffer.concat([body, padding])),
  ]);
  const lines = container.toString('base64').replace(/.{70}/g, '$&\n');
  return {
    privateKey: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`,
    publicBlob: publicBlob.toString('base64'),
  };
}

/** An SSH string: its length in four bytes, then its bytes. */
function field(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** A line of `ssh-keys` metadata: `USER:TYPE KEY COMMENT`. */
export interface AuthorizedKey {
  readonly user: string;
  readonly type: string;
  readonly blob: string;
}

/** All keys of a metadata value. Lines that are not of this form are passed over, as the guest agent does. */
export function authorizedKeys(metadata: string | undefined): AuthorizedKey[] {
  return (metadata ?? '').split('\n').flatMap((line) => {
    const match = /^\s*([^:\s]+):(\S+)\s+([A-Za-z0-9+/=]+)/.exec(line);
    const [, user, type, blob] = match ?? [];
    return user !== undefined && type !== undefined && blob !== undefined ? [{ user, type, blob }] : [];
  });
}
