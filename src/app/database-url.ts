// The URL of a database on a server, which may contain a password.

import { exitCode, JobmanError } from './errors.ts';

export const databaseVariable = 'JOBMAN_DATABASE';

/** A clause about a controller. */
export function formatOtherDatabase(database: string): string {
  return `works for the database ${database}, which is not the one of this command`;
}

export const otherDatabaseRemedy = `Set ${databaseVariable} or the setting "database" to the same value everywhere. To use the one of this command: jobman controller restart`;

export function otherDatabaseError(pid: number | null, database: string): JobmanError {
  return new JobmanError(
    `The controller of this home (process ${pid ?? '?'}) ${formatOtherDatabase(database)}.`,
    exitCode.conflict,
    [otherDatabaseRemedy],
  );
}

type Env = Readonly<Record<string, string | undefined>>;

export function isDatabaseUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\/./.test(text);
}

/** For programs of users: if they call jobman, it reads the password from another source. */
export function withoutDatabasePassword(env: Env): Env {
  const { [databaseVariable]: url, ...others } = env;
  if (url === undefined || !URL.canParse(url)) return others;
  const parsed = new URL(url);
  parsed.password = '';
  parsed.searchParams.delete('password');
  return { ...others, [databaseVariable]: parsed.href };
}
