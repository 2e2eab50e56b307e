// Proxy: which one leads to a server, in the form that Node's agents read (https://nodejs.org/api/http.html#built-in-proxy-support).

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]);

/** The variables that say it. A proxy of the environment is not asked for a server on this machine, which it could not reach. */
export function proxyFor(server: URL, env: Environment, own: string | undefined): Environment {
  if (own !== undefined) return { HTTP_PROXY: own, HTTPS_PROXY: own };
  if (isLoopback(server.href)) return {};
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

/** True for the address of a server on this machine. */
export function isLoopback(url: string): boolean {
  const hostname = URL.parse(url)?.hostname ?? '';
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}
