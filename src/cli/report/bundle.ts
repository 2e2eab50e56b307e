// The archive of a bug report: what helps to find a mistake of jobman, without secrets.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { arch, release, tmpdir, type } from 'node:os';
import { dirname, join } from 'node:path';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { settingAt } from '../../schema/settings.ts';
import { settingKeys } from '../../app/settings.ts';
import { jsonText } from '../../app/json.ts';
import type { Cli } from '../context.ts';
import { endOfFile, type ReportFile } from './report-parts.ts';

const readme = `This archive describes a job of jobman, or jobman itself, for a bug report.

jobman has removed known secrets and text that looks like one (***): values of secret variables and files of this
machine, tokens, keys, passwords in URLs, headers of logins, PEM blocks. It cannot know every secret. Read the files
before you share them.
`;

/** The program, its settings and the end of the controller's log. */
export async function installationFiles(cli: Cli): Promise<readonly ReportFile[]> {
  const { services, io } = cli;
  const [settings, { clusterSettingKeys }, cluster, controller, installation] = await Promise.all([
    services.settings(),
    import('../../app/cluster/settings.ts'),
    services.clusterSettings(),
    services.controller().then((service) => service.status()),
    services.client().then((client) => client.installationId()),
  ]);
  const rows = [
    ...settingKeys.map((key) => [key.key, settingAt(settings, key)] as const),
    ...clusterSettingKeys.map((key) => [key.key, settingAt(cluster.settings, key)] as const),
  ];
  const versions = {
    jobman: io.version,
    node: navigator.userAgent,
    system: `${type()} ${release()} ${arch()}`,
    installation,
    madeAt: io.now(),
    controller: { running: controller.running, version: controller.version, startedAt: controller.startedAt },
  };
  return [
    { name: 'README.txt', text: readme },
    { name: 'versions.json', text: `${jsonText(versions, 2)}\n` },
    {
      name: 'settings.json',
      text: `${jsonText(Object.fromEntries(rows.map(([key, value]) => [key, withoutCommands(value, key)])), 2)}\n`,
    },
    { name: 'controller.log', text: endOfFile(controller.logFile) },
  ];
}

/** Without the text of commands: no form of a secret in it could be recognised. */
function withoutCommands(value: unknown, key = ''): unknown {
  if (typeof value === 'string' && /command$/i.test(key)) return '***';
  if (Array.isArray(value)) return value.map((one) => withoutCommands(one));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withoutCommands(one, name)]));
}

/** A compressed tar with one folder of that name; the system's tar makes it. Throws JobmanError. */
export async function makeBundle(name: string, files: readonly ReportFile[]): Promise<Buffer> {
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  let folder: string | undefined;
  try {
    folder = mkdtempSync(join(tmpdir(), 'jobman-report-'));
    const root = join(folder, name);
    const archive = join(folder, 'archive');
    for (const { name: file, text } of files) {
      const target = join(root, file);
      mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
      writeFileSync(target, text, { mode: 0o600 });
    }
    await promisify(execFile)('tar', ['-czf', archive, '-C', folder, '--', name]);
    return readFileSync(archive);
  } catch (error) {
    const reason = error instanceof Error ? (error.message.trim().split('\n').at(-1) ?? '') : String(error);
    throw new JobmanError(`The archive could not be made in ${tmpdir()}: ${reason}`, exitCode.failed);
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}
