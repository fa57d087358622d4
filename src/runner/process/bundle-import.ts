/** Imports bundles from memory through module hooks; imports of `remuster` resolve to a given module. Reads no file. */
import { registerHooks, setSourceMapsSupport } from 'node:module';

/** A file URL, because Node applies source maps to files only. No such file exists. */
const root = 'file:///remuster-bundle/';

export type ImportBundle = (sha256: string, code: Uint8Array) => Promise<object>;

/** `entries`: URLs of already imported modules, by import specifier. */
export function createBundleImporter(entries: Readonly<Record<string, string>>): ImportBundle {
  const sources = new Map<string, Uint8Array>();
  // Stack traces then name the lines of the author's source.
  setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
  registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier.startsWith(root)) return { url: specifier, format: 'module', shortCircuit: true };
      const isProvided = context.parentURL?.startsWith(root) === true && Object.hasOwn(entries, specifier);
      const url = isProvided ? entries[specifier] : undefined;
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
