// The folders of hosts, and what is left of hosts that are no more: folders, and processes that carry a folder's mark.

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { NodeRecord } from '../world/records.ts';
import { lookAtMarks, markedPids, signal } from './processes.ts';
import { endSshd } from './sshd.ts';

/** The folder of one worker, in that of its node below `hostsFolder`. */
export function hostFolder(hostsFolder: string, node: NodeRecord, index: number): string {
  return join(hostsFolder, `${node.nodeId}-${node.id.slice(-6)}`, String(index));
}

/** Takes the folder of a worker away, and the node's when it was the last. Others go on meanwhile: there may be many. */
export async function removeHostFolder(hostsFolder: string, folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    // The kernel makes the working folders of overlays unreadable, even for their owner. And a program there may have made paths that
    // are longer than a path can be, which Node does not remove.
    spawnSync('chmod', ['-R', 'u+rwx', folder], { stdio: 'ignore' });
    spawnSync('rm', ['-rf', folder], { stdio: 'ignore' });
    await rm(folder, { recursive: true, force: true });
  }
  const parent = dirname(folder);
  if (parent !== hostsFolder && entries(parent).length === 0) await rm(parent, { recursive: true, force: true });
}

/** Ends all processes of a host, and its sshd. */
export async function endMarked(folder: string): Promise<void> {
  await endSshd(folder);
  for (let round = 0; round < 20; round += 1) {
    const pids = await markedPids(folder);
    if (pids.length === 0) return;
    await signal('KILL', pids);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/**
 * Clears what an earlier emulator left: processes of hosts that do not go on, and folders of workers that are no more.
 * `known` has the folder of every worker, true where its host goes on.
 */
export async function clearLeftovers(hostsFolder: string, known: ReadonlyMap<string, boolean>): Promise<void> {
  const marks = [...(await lookAtMarks()).keys()].filter((mark) => mark.startsWith(`${hostsFolder}/`));
  for (const folder of marks) if (known.get(folder) !== true) await endMarked(folder);
  for (const nodeFolder of entries(hostsFolder)) {
    for (const index of entries(join(hostsFolder, nodeFolder))) {
      const folder = join(hostsFolder, nodeFolder, index);
      if (!known.has(folder)) await removeHostFolder(hostsFolder, folder);
    }
  }
}

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
