/** The address of a script that runs in a thread. */
declare module '*?worker&url' {
  const url: string;
  export default url;
}
