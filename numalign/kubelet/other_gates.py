"""The kubelet's other feature gates: those that decide nothing here, but that keep it from starting where misspelt.

Sources, of each release from 1.27 to 1.36: pkg/features, and what it registers of apiserver, apiextensions-apiserver,
client-go, component-base (logs, metrics, zpages) and controller-manager. What is new in 1.37 is not here.
"""

from __future__ import annotations

__all__ = ["OTHER_GATES"]

OTHER_GATES = """
    APIListChunking                                       27 B+  29 G+L  33 -
    APIPriorityAndFairness                                27 B+  29 G+L  31 -
    APIResponseCompression                                27 B+
    APISelfSubjectReview                                  27 B+  28 G+L  30 -
    APIServerIdentity                                     27 B+
    APIServerTracing                                      27 B+  34 G+L
    APIServingWithRoutine                                 30 A0
    AdmissionWebhookMatchConditions                       27 A0  28 B+  30 G+L  33 -
    AdvancedAuditing                                      27 G+L  28 -
    AggregatedDiscoveryEndpoint                           27 B+  30 G+L  33 -
    AggregatedDiscoveryRemoveBetaType                     33 D+  35 D+L
    AllowDNSOnlyNodeCSR                                   31 D0
    AllowInsecureKubeletCertificateSigningRequests        31 D0
    AllowOverwriteTerminationGracePeriodSeconds           32 D0  35 D0L
    AllowParsingUserUIDFromCertAuth                       33 B+
    AllowServiceExternalIPs                               36 G+
    AllowServiceLBStatusOnNonLB                           29 D0  32 D0L  35 -
    AllowUnsafeMalformedObjectDeletion                    32 A0
    AnonymousAuthConfigurableEndpoints                    31 A0  32 B+  34 G+L
    AnyVolumeDataSource                                   27 B+  33 G+L
    AppArmor                                              27 B+  31 G+L  33 -
    AppArmorFields                                        30 B+  31 G+L  33 -
    AtomicFIFO                                            36 B+
    AuthorizeNodeWithSelectors                            31 A0  32 B+  34 G+L
    AuthorizePodWebsocketUpgradeCreatePermission          35 B+
    AuthorizeWithSelectors                                31 A0  32 B+  34 G+L
    BtreeWatchCache                                       32 B+  33 G+L
    CBORServingAndStorage                                 32 A0
    CRDObservedGenerationTracking                         35 B0  36 B+
    CRDValidationRatcheting                               28 A0  30 B+  33 G+L
    CRIListStreaming                                      36 A0
    CSIMigrationAzureFile                                 27 G+L  30 -
    CSIMigrationGCE                                       27 G+L  28 -
    CSIMigrationPortworx                                  27 B0  31 B+  33 G+L  36 -
    CSIMigrationRBD                                       27 A0  28 D0  31 -
    CSIMigrationvSphere                                   27 G+L  29 -
    CSINodeExpandSecret                                   27 B+  29 G+L  31 -
    CSIServiceAccountTokenSecrets                         35 B+  36 G+L
    CSIStorageCapacity                                    27 G+L  28 -
    CSIVolumeHealth                                       27 A0
    ClearingNominatedNodeNameAfterBinding                 34 A0  35 B+
    ClientsAllowCARotation                                36 B+
    ClientsAllowCBOR                                      32 A0
    ClientsAllowTLSCacheGC                                36 B+
    ClientsPreferCBOR                                     32 A0
    CloudControllerManagerWatchBasedRoutesReconciliation  35 A0
    CloudControllerManagerWebhook                         27 A0
    CloudDualStackNodeIPs                                 27 A0  29 B+  30 G+L  32 -
    ClusterTrustBundle                                    27 A0  33 B0
    ClusterTrustBundleProjection                          29 A0  33 B0
    ComponentFlagz                                        32 A0  36 B+
    ComponentSLIs                                         27 B+  32 G+L  35 -
    ComponentStatusz                                      32 A0  36 B+
    ConcurrentWatchObjectDecode                           31 B0
    ConsistentHTTPGetHandlers                             27 G+  30 G+L  31 -
    ConsistentListFromCache                               28 A0  31 B+  34 G+L
    ConstrainedImpersonation                              35 A0  36 B+
    ContainerCheckpoint                                   27 A0  30 B+
    ContainerRestartRules                                 34 A0  35 B+
    ContainerStopSignals                                  33 A0
    ContextualLogging                                     27 A0  30 B0  33 B+
    CoordinatedLeaderElection                             31 A0  33 B0
    CronJobTimeZone                                       27 G+L  29 -
    CronJobsScheduledAnnotation                           28 B+  32 G+L  35 -
    CrossNamespaceVolumeDataSource                        27 A0
    CustomResourceFieldSelectors                          30 A0  31 B+  32 G+L
    CustomResourceValidationExpressions                   27 B+  29 G+L  31 -
    DRAControlPlaneController                             31 A0  32 -
    DRAResourceClaimGranularStatusAuthorization           36 B+
    DRASchedulerFilterTimeout                             34 B+
    DeclarativeValidation                                 33 B+  36 G+L
    DeclarativeValidationBeta                             36 B+
    DeclarativeValidationTakeover                         33 B0  36 D0
    DefaultHostNetworkHostPortsInPodTemplates             28 D0  31 -
    DelegateFSGroupToCSIDriver                            27 G+L  28 -
    DeploymentReplicaSetTerminatingReplicas               33 A0  35 B+
    DetectCacheInconsistency                              34 B+
    DisableAcceleratorUsageMetrics                        27 G+L  28 -
    DisableAllocatorDualWrite                             31 A0  33 B0  34 G+  35 G+L
    DisableCloudProviders                                 27 A0  29 B+  31 G+L  33 -
    DisableKubeletCloudCredentialProviders                27 A0  29 B+  31 G+L  33 -
    DisableNodeKubeProxyVersion                           29 A0  31 D0  33 D+  36 D+L
    DryRun                                                27 G+L  28 -
    EfficientWatchResumption                              27 G+L  33 -
    ElasticIndexedJob                                     27 B+  31 G+L  34 -
    EndpointSliceTerminatingCondition                     27 G+L  28 -
    EnvFiles                                              34 A0  35 B+
    EventedPLEG                                           27 A0
    ExecProbeTimeout                                      27 G+  35 G+L
    ExpandedDNSConfig                                     27 B+  28 G+L  30 -
    ExperimentalHostUserNamespaceDefaulting               27 B0  28 D0L  30 -
    ExtendWebSocketsToKubelet                             36 B+
    ExternalServiceAccountTokenSigner                     32 A0  34 B+  36 G+L
    GRPCContainerProbe                                    27 G+L  29 -
    GangScheduling                                        35 A0
    GenericWorkload                                       35 A0
    GitRepoVolumeDriver                                   33 D0  36 D0L
    GracefulNodeShutdownBasedOnPodPriority                27 B+
    HPAConfigurableTolerance                              33 A0  35 B+
    HPAContainerMetrics                                   27 B+  30 G+L  32 -
    HPAScaleToZero                                        27 A0
    HonorPVReclaimPolicy                                  27 A0  31 B+  33 G+L  36 -
    HostnameOverride                                      34 A0  35 B+
    IPTablesOwnershipCleanup                              27 B+  28 G+L  30 -
    ImageMaximumGCAge                                     29 A0  30 B+  35 G+L
    ImageVolume                                           31 A0  33 B0  35 B+  36 G+L
    ImageVolumeWithDigest                                 36 A0
    InOrderInformers                                      33 B+  36 G+L
    InOrderInformersBatchProcess                          35 B+
    InTreePluginAWSUnregister                             27 A0  31 -
    InTreePluginAzureDiskUnregister                       27 A0  31 -
    InTreePluginAzureFileUnregister                       27 A0  31 -
    InTreePluginGCEUnregister                             27 A0  31 -
    InTreePluginOpenStackUnregister                       27 A0  31 -
    InTreePluginPortworxUnregister                        27 A0  36 -
    InTreePluginRBDUnregister                             27 A0  28 D0  31 -
    InTreePluginvSphereUnregister                         27 A0  31 -
    InformerResourceVersion                               30 A0  35 G+
    JobBackoffLimitPerIndex                               28 A0  29 B+  33 G+L
    JobManagedBy                                          30 A0  32 B+  35 G+L
    JobMutableNodeSchedulingDirectives                    27 G+L  29 -
    JobPodFailurePolicy                                   27 B+  31 G+L  33 -
    JobPodReplacementPolicy                               28 A0  29 B+  34 G+L
    JobReadyPods                                          27 B+  29 G+L  31 -
    JobSuccessPolicy                                      30 A0  31 B+  33 G+L
    JobTrackingWithFinalizers                             27 G+L  29 -
    KMSv1                                                 28 D+  29 D0
    KMSv2                                                 27 B+  29 G+L  32 -
    KMSv2KDF                                              28 B0  29 G+L  32 -
    KubeProxyDrainingTerminatingNodes                     28 A0  30 B+  31 G+L  33 -
    KubeletCrashLoopBackOffMax                            32 A0  35 B+
    KubeletCredentialProviders                            27 G+L  28 -
    KubeletEnsureSecretPulledImages                       33 A0  35 B+
    KubeletFineGrainedAuthz                               32 A0  33 B+  36 G+L
    KubeletRegistrationGetOnExistsOnly                    32 D0
    KubeletServiceAccountTokenForCredentialProviders      33 A0  34 B+
    KubeletTracing                                        27 B+  34 G+L
    LegacyServiceAccountTokenCleanUp                      28 A0  29 B+  30 G+L  32 -
    LegacyServiceAccountTokenNoAutoGeneration             27 G+L  29 -
    LegacyServiceAccountTokenTracking                     27 B+  28 G+L  30 -
    ListFromCacheSnapshot                                 33 A0  34 B+
    LoadBalancerIPMode                                    29 A0  30 B+  32 G+L  35 -
    LocalStorageCapacityIsolationFSQuotaMonitoring        27 A0  31 B0
    LogarithmicScaleDown                                  27 B+  31 G+L
    LoggingAlphaOptions                                   27 A0
    LoggingBetaOptions                                    27 B+
    ManifestBasedAdmissionControlConfig                   36 A0
    MatchLabelKeysInPodAffinity                           29 A0  31 B+  33 G+L
    MatchLabelKeysInPodTopologySpread                     27 B+
    MatchLabelKeysInPodTopologySpreadSelectorMerge        34 B+
    MaxUnavailableStatefulSet                             27 A0  35 B0
    MinDomainsInPodTopologySpread                         27 B+  30 G+L  32 -
    MinimizeIPTablesRestore                               27 B+  28 G+L  30 -
    MixedProtocolLBService                                27 G+L  28 -
    MultiCIDRRangeAllocator                               27 A0  29 -
    MultiCIDRServiceAllocator                             27 A0  31 B0  33 G+  34 G+L
    MutableCSINodeAllocatableCount                        33 A0  34 B0  35 B+  36 G+L
    MutablePVNodeAffinity                                 35 A0
    MutableSchedulingDirectivesForSuspendedJobs           35 A0  36 B+
    MutatingAdmissionPolicy                               30 A0  34 B0  36 G+
    NFTablesProxyMode                                     29 A0  31 B+  33 G+L
    NativeHistograms                                      36 A0
    NetworkPolicyStatus                                   27 A0  28 -
    NewVolumeManagerReconstruction                        27 B0  28 B+  30 G+L  32 -
    NodeInclusionPolicyInPodTopologySpread                27 B+  33 G+L
    NodeLogQuery                                          27 A0  30 B0  36 G+L
    NodeOutOfServiceVolumeDetach                          27 B+  28 G+L  32 -
    NominatedNodeNameForExpectation                       34 A0  35 B+
    OpenAPIEnums                                          27 B+
    OpenAPIV3                                             27 G+L  29 -
    OpportunisticBatching                                 35 B+
    OrderedNamespaceDeletion                              30 B0  33 B+  34 G+L
    PDBUnhealthyPodEvictionPolicy                         27 B+  31 G+L  33 -
    PLEGOnDemandRelist                                    36 B+
    PersistentVolumeClaimUnusedSinceTime                  36 A0
    PersistentVolumeLastPhaseTransitionTime               28 A0  29 B+  31 G+L  33 -
    PodAndContainerStatsFromCRI                           27 A0
    PodCertificateRequest                                 34 A0  35 B0
    PodDeletionCost                                       27 B+
    PodDisruptionConditions                               27 B+  31 G+L  34 -
    PodHasNetworkCondition                                27 A0  28 -
    PodHostIPs                                            28 A0  29 B+  30 G+L  32 -
    PodIndexLabel                                         28 B+  32 G+L  35 -
    PodLifecycleSleepAction                               29 A0  30 B+  34 G+L
    PodLifecycleSleepActionAllowZero                      32 A0  33 B+  34 G+L
    PodLogsQuerySplitStreams                              32 A0
    PodObservedGenerationTracking                         33 A0  34 B+  35 G+L
    PodReadyToStartContainersCondition                    28 A0  29 B+
    PodSchedulingReadiness                                27 B+  30 G+L
    PodSecurity                                           27 G+L  28 -
    PodTopologyLabelsAdmission                            33 A0  35 B+
    PodsAPI                                               36 A0
    PortForwardWebsockets                                 30 A0  31 B+
    PreferSameTrafficDistribution                         33 A0  34 B+  35 G+L
    PreventStaticPodAPIReferences                         34 B+
    ProbeHostPodSecurityStandards                         34 G+L  35 -
    ProbeTerminationGracePeriod                           27 B+  28 G+L  29 -
    ProcMountType                                         27 A0  31 B0  33 B+  36 G+L
    ProxyTerminatingEndpoints                             27 B+  28 G+L  30 -
    QOSReserved                                           27 A0
    ReadWriteOncePod                                      27 B+  29 G+L  31 -
    RecoverVolumeExpansionFailure                         27 A0  32 B+  34 G+L
    RecursiveReadOnlyMounts                               30 A0  31 B+  33 G+L
    ReduceDefaultCrashLoopBackOffDecay                    33 A0
    RelaxedDNSSearchValidation                            32 A0  33 B+  34 G+L
    RelaxedEnvironmentVariableValidation                  30 A0  32 B+  34 G+L
    RelaxedServiceNameValidation                          34 A0  36 B+
    ReloadKubeletClientCAFile                             36 B+
    ReloadKubeletServerCertificateFile                    31 B+
    RemainingItemCount                                    27 B+  29 G+L  33 -
    RemoteRequestHeaderUID                                32 A0  33 B+
    RemoveSelfLink                                        27 G+L  30 -
    ResilientWatchCacheInitialization                     31 B0  32 B+  34 G+L
    RestartAllContainersOnContainerExits                  35 A0  36 B+
    RetroactiveDefaultStorageClass                        27 B+  28 G+  29 -
    RetryGenerateName                                     30 A0  31 B+  32 G+L
    RotateKubeletServerCertificate                        27 B+
    RuntimeClassInImageCriApi                             29 A0
    SELinuxChangePolicy                                   32 A0  33 B+  36 G+L
    SELinuxMount                                          30 A0  33 B0
    SELinuxMountReadWriteOncePod                          27 B0  28 B+  36 G+L
    SchedulerAsyncAPICalls                                34 B0
    SchedulerAsyncPreemption                              32 A0  33 B+
    SchedulerPopFromBackoffQ                              33 B+
    SchedulerQueueingHints                                28 B0  32 B+  34 G+L
    SeccompDefault                                        27 G+L  29 -
    SecurityContextDeny                                   27 A0  30 -
    SeparateCacheWatchRPC                                 28 B+  33 D0  36 D0L
    SeparateTaintEvictionController                       29 B+  34 G+L
    ServerSideApply                                       27 G+L  32 -
    ServerSideFieldValidation                             27 G+L  32 -
    ServiceAccountNodeAudienceRestriction                 32 B0  33 B+
    ServiceAccountTokenJTI                                29 A0  30 B+  32 G+L
    ServiceAccountTokenNodeBinding                        29 A0  31 B+  33 G+L
    ServiceAccountTokenNodeBindingValidation              29 A0  30 B+  32 G+L
    ServiceAccountTokenPodNodeInfo                        29 A0  30 B+  32 G+L
    ServiceCIDRStatusFieldWiping                          36 D+
    ServiceIPStaticSubrange                               27 G+L  28 -
    ServiceInternalTrafficPolicy                          27 G+L  28 -
    ServiceNodePortStaticSubrange                         27 A0  28 B+  29 G+L  31 -
    ServiceTrafficDistribution                            30 A0  31 B+  33 G+L  36 -
    ShardedListAndWatch                                   36 A0
    SizeBasedListCostEstimate                             34 B+
    SkipReadOnlyValidationGCE                             28 A0  29 D+  31 -
    StableLoadBalancerNodeSet                             27 B+  30 G+L  32 -
    StaleControllerConsistencyDaemonSet                   36 B+
    StaleControllerConsistencyJob                         36 B+
    StaleControllerConsistencyReplicaSet                  36 B+
    StaleControllerConsistencyStatefulSet                 36 B+
    StatefulSetAutoDeletePVC                              27 B+  32 G+L  35 -
    StatefulSetSemanticRevisionComparison                 34 B+
    StatefulSetStartOrdinal                               27 B+  31 G+L  34 -
    StorageCapacityScoring                                33 A0
    StorageNamespaceIndex                                 30 B+  33 D+
    StorageVersionAPI                                     27 A0
    StorageVersionHash                                    27 B+
    StorageVersionMigrator                                30 A0  35 B0
    StreamingCollectionEncodingToJSON                     29 B0  33 B+  34 G+L
    StreamingCollectionEncodingToProtobuf                 29 B0  33 B+  34 G+L
    StrictCostEnforcementForVAP                           30 B0  32 G+L  35 -
    StrictCostEnforcementForWebhooks                      30 B0  32 G+L  35 -
    StrictIPCIDRValidation                                33 A0  36 B+
    StructuredAuthenticationConfiguration                 28 A0  30 B+  34 G+L
    StructuredAuthenticationConfigurationEgressSelector   34 B+
    StructuredAuthenticationConfigurationJWKSMetrics      35 B+
    StructuredAuthorizationConfiguration                  29 A0  30 B+  32 G+L  36 -
    SupplementalGroupsPolicy                              31 A0  33 B+  35 G+L
    SystemdWatchdog                                       32 B+  35 G+L
    TaintTolerationComparisonOperators                    35 A0
    TokenRequestServiceAccountUIDValidation               34 B+
    TopologyAwareHints                                    27 B+  33 G+L  36 -
    TranslateStreamCloseWebsocketRequests                 29 A0  30 B+
    UnauthenticatedHTTP2DOSMitigation                     27 B+
    UnknownVersionInteroperabilityProxy                   28 A0  36 B+
    UnlockWhileProcessingFIFO                             36 B+
    UserNamespacesHostNetworkSupport                      35 A0
    UserNamespacesPodSecurityStandards                    29 A0  35 -
    UserNamespacesStatelessPodsSupport                    27 A0  28 -
    UserNamespacesSupport                                 28 A0  30 B0  33 B+  36 G+L
    ValidatingAdmissionPolicy                             27 A0  28 B0  30 G+L  32 -
    VolumeAttributesClass                                 29 A0  31 B0  34 G+  36 G+L
    VolumeCapacityPriority                                27 A0  33 -
    VolumeLimitScaling                                    35 A0
    WatchBookmark                                         27 G+L  33 -
    WatchCacheInitializationPostStartHook                 31 B0  36 B+
    WatchFromStorageWithoutResourceVersion                27 B0  33 D0L  36 -
    WatchList                                             27 A0  32 B+  33 B0  34 B+
    WatchListClient                                       30 B0  35 B+
    WinDSR                                                27 A0  33 B+  34 G+L
    WinOverlay                                            27 B+  34 G+L
    WindowsGracefulNodeShutdown                           32 A0  34 B+
    WindowsHostNetwork                                    27 A+  33 D0
    WindowsHostProcessContainers                          27 G+L  28 -
    WorkloadAwarePreemption                               36 A0
    WorkloadWithJob                                       36 A0
    ZeroLimitedNominalConcurrencyShares                   29 B0  30 G+L  32 -
"""
"""Rows as those of numalign.kubelet.versions."""
