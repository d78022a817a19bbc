"""Controllers that remove what nobody needs: dependents, namespaces, finished pods and jobs; and storage versions."""
