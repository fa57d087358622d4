/** Imports bundles from memory through module hooks; `remuster` resolves to package-stub.ts. Never reads a file. */
import { registerHooks, setSourceMapsSupport } from 'node:module';

/** No such file is ever read. Node looks for maps of lines only in what it takes for files. */
const root = 'file:///remuster-bundle/';

export type ImportBundle = (sha256: string, code: Uint8Array) => Promise<object>;

/** `entries`: by name of the import the address of a module that was imported already. */
export function createBundleImporter(entries: Readonly<Record<string, string>>): ImportBundle {
  const sources = new Map<string, Uint8Array>();
  // So that the stack of an error names the lines of the author.
  setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
  registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier.startsWith(root)) return { url: specifier, format: 'module', shortCircuit: true };
      const isAsked = context.parentURL?.startsWith(root) === true && Object.hasOwn(entries, specifier);
      const url = isAsked ? entries[specifier] : undefined;
      return url === undefined ? next(specifier, context) : { url, shortCircuit: true };
    },
    load: (url, context, next) => {
      const source = sources.get(url);
      return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
    },
  });
  return async (sha256, code) => {
    const url = `${root}${sha256}.mjs`;
    sources.set(url, code);
    try {
      return (await import(url)) as object;
    } finally {
      sources.delete(url);
    }
  };
}
