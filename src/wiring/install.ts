// Install: the controller survives logout and reboot as a systemd user service, else through cron's @reboot, without
// root.

import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { JobmanError, exitCode } from '../app/errors.ts';
import type { Io } from '../app/services.ts';
import { makeHome } from '../files/files.ts';
import { homeLauncher, writeProgramFile } from '../files/program-file.ts';
import { runProcess, type ProcessResult } from '../remote/process.ts';
import { quote } from '../catalogue/shell.ts';

interface ServiceOptions {
  readonly io: Io;
  readonly home: string;
}

const unitName = 'jobman-controller.service';
/** Identifies our line in a crontab that has other lines too. */
const cronMarker = '# jobman controller';

/** Returns a message. Throws JobmanError if this machine has neither systemd nor cron. */
export async function installService(installation: ServiceOptions): Promise<string> {
  const { io, home } = installation;
  const hasSystemd = (await run(['systemctl', '--user', 'show-environment'])).exitCode === 0;
  const crontab = hasSystemd ? undefined : await readCrontab();
  if (!hasSystemd && crontab === undefined)
    throw new JobmanError(
      'This machine has neither a systemd user session nor cron to start the controller after a reboot.',
      exitCode.failed,
      ['The next jobman command that needs the controller starts it.'],
    );
  makeHome(home);
  writeProgramFile(home, io.launcher);
  if (crontab === undefined) {
    const unit = unitFile(io);
    await mkdir(join(unit, '..'), { recursive: true });
    await writeFile(unit, formatUnit(installation));
    await expectOk(['systemctl', '--user', 'daemon-reload']);
    await expectOk(['systemctl', '--user', 'enable', '--now', unitName]);
    // Without lingering a user service ends with the last session.
    const linger = await run(['loginctl', 'enable-linger', io.user]);
    const warning =
      linger.exitCode === 0
        ? ''
        : `\nIt stops at logout until an administrator runs: loginctl enable-linger ${io.user}`;
    return `Installed ${unit}; the controller runs now and after each reboot. Undo: jobman controller uninstall${warning}`;
  }
  await writeCrontab([...withoutOurLine(crontab, installation), cronLine(installation)]);
  return 'Added an @reboot line to your crontab: the controller starts after each reboot, and now with the next command that needs it. Undo: jobman controller uninstall';
}

/** Safe to repeat. */
export async function uninstallService(installation: ServiceOptions): Promise<string> {
  const done: string[] = [];
  const unit = unitFile(installation.io);
  if ((await readFile(unit, 'utf8').catch(() => undefined)) !== undefined) {
    await run(['systemctl', '--user', 'disable', '--now', unitName]);
    await rm(unit, { force: true });
    await run(['systemctl', '--user', 'daemon-reload']);
    done.push(`removed ${unit}`);
  }
  const crontab = await readCrontab();
  if (crontab !== undefined) {
    const lines = withoutOurLine(crontab, installation);
    if (lines.length !== crontab.length) {
      await writeCrontab(lines);
      done.push('removed the @reboot line from your crontab');
    }
  }
  return done.length === 0 ? 'The controller is not installed as a service.' : `${done.join(', ')}.`;
}

export function formatUnit({ io, home }: ServiceOptions): string {
  return [
    '[Unit]',
    'Description=jobman controller',
    '',
    '[Service]',
    `ExecStart=${[...homeLauncher(home), 'controller', 'run', '--idle-exit', 'never'].map(quoteArgument).join(' ')}`,
    `Environment=${quoteValue(`JOBMAN_HOME=${home}`)}`,
    `Environment=${quoteValue(`PATH=${io.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'}`)}`,
    'Restart=on-failure',
    'RestartSec=5',
    // Programs of local jobs keep running when the controller is stopped or upgraded.
    'KillMode=process',
    '',
    '[Install]',
    'WantedBy=default.target',
    '',
  ].join('\n');
}

function unitFile(io: Io): string {
  return join(io.env['XDG_CONFIG_HOME'] ?? join(io.userHome, '.config'), 'systemd/user', unitName);
}

/** Source: systemd.syntax(7), and systemd.unit(5) on specifiers. */
function quoteValue(value: string): string {
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%')}"`;
}

/** In a command line `$` is doubled too, unlike in Environment= (systemd.service(5), systemd.exec(5)). */
function quoteArgument(argument: string): string {
  return quoteValue(argument).replaceAll('$', '$$$$');
}

function cronLine({ home }: Pick<ServiceOptions, 'home'>): string {
  const launch = [...homeLauncher(home), 'controller', 'start'].map(quote).join(' ');
  // In a crontab an unescaped percent sign ends the command.
  const command = `JOBMAN_HOME=${quote(home)} ${launch}`.replaceAll('%', '\\%');
  return `@reboot ${command} >/dev/null 2>&1 ${cronMarker} ${home}`;
}

function withoutOurLine(lines: readonly string[], { home }: ServiceOptions): readonly string[] {
  return lines.filter((line) => !line.endsWith(`${cronMarker} ${home}`));
}

/** Undefined when there is no cron. */
async function readCrontab(): Promise<readonly string[] | undefined> {
  const listed = await run(['crontab', '-l']);
  if (listed.error !== null) return undefined;
  if (listed.exitCode === 0)
    return text(listed.stdout)
      .replace(/\n$/, '')
      .split('\n')
      .filter((line) => line !== '');
  return /no crontab/i.test(text(listed.stderr)) ? [] : undefined;
}

async function writeCrontab(lines: readonly string[]): Promise<void> {
  const written = await run(['crontab', '-'], `${lines.join('\n')}\n`);
  if (written.exitCode !== 0) {
    throw new JobmanError(`The crontab was not changed: ${text(written.stderr).trim()}`, exitCode.failed);
  }
}

async function expectOk(argv: readonly string[]): Promise<void> {
  const result = await run(argv);
  if (result.exitCode !== 0) {
    throw new JobmanError(`${argv.join(' ')} failed: ${text(result.stderr).trim()}`, exitCode.failed);
  }
}

function run(argv: readonly string[], stdin = ''): Promise<ProcessResult> {
  return runProcess({ argv, stdin, timeoutMs: 10_000, maxOutputBytes: 1_000_000 });
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
