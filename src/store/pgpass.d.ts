declare module 'pgpass' {
  interface Server {
    readonly host: string;
    readonly port: number;
    readonly database?: string | undefined;
    readonly user?: string | undefined;
  }
  /** Calls with the password in the file of PGPASSFILE or in ~/.pgpass, or undefined. */
  export default function pgpass(server: Server, call: (password: string | undefined) => void): void;
}
