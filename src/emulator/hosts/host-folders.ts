import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { NodeRecord } from '../world/records.ts';
import { scanHostProcesses, hostPids, signal } from './processes.ts';
import { endSshd } from './sshd.ts';

export function hostFolder(hostsFolder: string, node: NodeRecord, index: number): string {
  return join(hostsFolder, `${node.nodeId}-${node.id.slice(-6)}`, String(index));
}

/** Also removes the node's folder after its last worker. Not synchronous, because a node may have many workers. */
export async function removeHostFolder(hostsFolder: string, folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    // The kernel makes the work folders of overlays unreadable, even for their owner. A program of the host may also
    // have created paths that are longer than PATH_MAX, which Node cannot remove.
    spawnSync('chmod', ['-R', 'u+rwx', folder], { stdio: 'ignore' });
    spawnSync('rm', ['-rf', folder], { stdio: 'ignore' });
    await rm(folder, { recursive: true, force: true });
  }
  const parent = dirname(folder);
  if (parent !== hostsFolder && entries(parent).length === 0) await rm(parent, { recursive: true, force: true });
}

export async function endHostProcesses(folder: string): Promise<void> {
  await endSshd(folder);
  for (let round = 0; round < 20; round += 1) {
    const pids = await hostPids(folder);
    if (pids.length === 0) return;
    await signal('KILL', pids);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Removes what an earlier emulator left. `known` has every worker's folder, and true when its host continues. */
export async function clearLeftovers(hostsFolder: string, known: ReadonlyMap<string, boolean>): Promise<void> {
  const folders = [...(await scanHostProcesses()).keys()].filter((folder) => folder.startsWith(`${hostsFolder}/`));
  for (const folder of folders) if (known.get(folder) !== true) await endHostProcesses(folder);
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
