// The URL of a database on a server, which may contain a password.

export const databaseVariable = 'JOBMAN_DATABASE';

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
