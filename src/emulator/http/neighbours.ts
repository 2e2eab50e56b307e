/**
 * The user at the other end of a loopback connection. Google's clients send no credentials to a local server, so on a
 * machine with several users anybody could add a key to a node and run commands as the owner of the emulator. The kernel
 * knows whose socket it is; only our own user and root are served.
 */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';

export type Neighbour = 'ours' | 'stranger' | 'unknown';

const established = '01';

/**
 * Looks the peer up in the kernel's tables (Linux). `unknown` where there are none, or the peer is not in them: the
 * tables of a sandbox may be incomplete, and turning its only user away would help nobody.
 */
export function neighbourOf(socket: Socket, uid: number): Neighbour {
  const { remotePort, localPort } = socket;
  if (remotePort === undefined || localPort === undefined) return 'stranger';
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    let text: string;
    try {
      text = readFileSync(table, 'latin1');
    } catch {
      continue;
    }
    const owner = ownerOf(text, remotePort, localPort);
    if (owner === undefined) continue;
    if (owner.uid === uid) return 'ours';
    // The kernel shows a socket that its process has closed already as root's; root itself is still connected.
    return owner.uid === 0 && owner.state === established ? 'ours' : 'stranger';
  }
  return 'unknown';
}

/** The row whose local end is `port` and whose remote end is `peerPort`, both on the loopback network. */
export function ownerOf(table: string, port: number, peerPort: number): { uid: number; state: string } | undefined {
  const hex = (number: number): string => number.toString(16).toUpperCase().padStart(4, '0');
  const row = table.split('\n').find((line) => {
    const [, local = '', remote = ''] = line.trim().split(/\s+/);
    return (
      local.endsWith(`:${hex(port)}`) && remote.endsWith(`:${hex(peerPort)}`) && isLoopback(local) && isLoopback(remote)
    );
  });
  if (row === undefined) return undefined;
  const fields = row.trim().split(/\s+/);
  return { uid: Number(fields[7]), state: fields[3] ?? '' };
}

/** Addresses are written in the byte order of the machine: 127.0.0.1 is 0100007F on a little-endian one. */
function isLoopback(address: string): boolean {
  const digits = address.slice(0, address.indexOf(':')).slice(-8);
  return digits.endsWith('7F') || digits.startsWith('7F');
}
